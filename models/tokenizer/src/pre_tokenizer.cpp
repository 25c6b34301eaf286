// Cuts a text into the pieces inside which byte-level BPE merges.
#include "pre_tokenizer.hpp"

#include "char_set.hpp"
#include "unicode.hpp"

#include "quern/models/tokenizer.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <tuple>

namespace quern {
namespace tokenizer {
namespace {

using Rule = PreTokenizer::Rule;

struct Named {
  std::string_view name;
  PreTokenizer pre_tokenizer;
};

constexpr PreTokenizer gpt2{.rule = Rule::gpt2};
constexpr PreTokenizer gpt2_nfc{.rule = Rule::gpt2, .nfc = true};
constexpr PreTokenizer smollm{.rule = Rule::digits_gpt2};
constexpr PreTokenizer command_r{.rule = Rule::digits_gpt2, .nfc = true};
constexpr PreTokenizer llama3{.rule = Rule::llama3, .max_numbers = 3, .ignore_merges = true, .starts_with_bos = true};
constexpr PreTokenizer dbrx{.rule = Rule::llama3, .max_numbers = 3};
constexpr PreTokenizer qwen2{.rule = Rule::llama3, .max_numbers = 1, .nfc = true};
constexpr PreTokenizer grok2{.rule = Rule::llama3, .max_numbers = 1};
constexpr PreTokenizer tekken{.rule = Rule::tekken, .ignore_merges = true, .starts_with_bos = true};
constexpr PreTokenizer deepseek_llm{.rule = Rule::deepseek_llm};
constexpr PreTokenizer deepseek_coder{.rule = Rule::deepseek_coder};

constexpr Named table[] = {
    {"default", gpt2},
    {"gpt-2", gpt2},
    {"a.x-4.0", gpt2},
    {"exaone4", gpt2},
    {"gigachat", gpt2},
    {"granite-docling", gpt2},
    {"jais", gpt2},
    {"jina-de", gpt2},
    {"jina-es", gpt2},
    {"jina-v2-de", gpt2},
    {"jina-v2-es", gpt2},
    {"mellum", gpt2},
    {"modern-bert", gpt2},
    {"phi-2", gpt2},
    {"trillion", gpt2},
    {"mpt", gpt2_nfc},
    {"olmo", gpt2_nfc},
    {"smollm", smollm},
    {"codeshell", smollm},
    {"exaone", smollm},
    {"minerva-7b", smollm},
    {"refact", smollm},
    {"starcoder", smollm},
    {"command-r", command_r},
    {"llama-bpe", llama3},
    {"falcon-h1", llama3},
    {"falcon3", llama3},
    {"jina-v5-nano", llama3},
    {"lfm2", llama3},
    {"llama-v3", llama3},
    {"llama3", llama3},
    {"midm-2.0", llama3},
    {"pixtral", llama3},
    {"chatglm-bpe", dbrx},
    {"dbrx", dbrx},
    {"glm4", dbrx},
    {"smaug-bpe", dbrx},
    {"qwen2", qwen2},
    {"deepseek-r1-qwen", qwen2},
    {"f2llmv2", qwen2},
    {"hunyuan", qwen2},
    {"kormo", qwen2},
    {"megrez", qwen2},
    {"stablelm2", qwen2},
    {"grok-2", grok2},
    {"tekken", tekken},
    {"deepseek-llm", deepseek_llm},
    {"deepseek-coder", deepseek_coder},
};

// The end of the run of characters of class `kind` from `at`, which may be empty.
std::size_t run_end(std::string_view text, std::size_t at, CharClass kind, std::size_t max = SIZE_MAX) noexcept {
  for (; max > 0 && at < text.size(); --max) {
    const ClassifiedChar c = classify(text, at);
    if (c.kind != kind) break;
    at += c.character.length;
  }
  return at;
}

bool is_newline(char c) noexcept { return c == '\n' || c == '\r'; }

// 's|'t|'re|'ve|'m|'ll|'d at an apostrophe; the end, or `at` if there is none.
std::size_t contraction_end(std::string_view text, std::size_t at, bool any_case) noexcept {
  const auto letter = [&](std::size_t i) {
    const char c = at + i < text.size() ? text[at + i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(1), second = letter(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return at + 3;
  // U+017F, the long s, is an s to an expression that ignores case.
  if (any_case && text.substr(at + 1).starts_with("\xC5\xBF")) return at + 3;
  return at;
}

struct SpaceRun {
  std::size_t end = 0;
  std::size_t last = 0;      // where its last character starts
  std::size_t newlines = 0;  // the end of its last line break; 0 if it has none
};

SpaceRun space_run(std::string_view text, std::size_t at) noexcept {
  SpaceRun run{at, at, 0};
  while (run.end < text.size()) {
    const ClassifiedChar c = classify(text, run.end);
    if (c.kind != CharClass::space) break;
    run.last = run.end;
    run.end += c.character.length;
    if (is_newline(text[run.last])) run.newlines = run.end;
  }
  return run;
}

// \s+(?!\S)|\s+ on a run that starts at `at`: the last character is left to what follows, if something
// follows and the run has more than one.
std::size_t space_end(const SpaceRun& run, std::size_t at, bool something_follows) noexcept {
  return something_follows && run.last > at ? run.last : run.end;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// With numbers_alone: the same between single number characters, each of which ends the text before it.
std::size_t gpt2_end(std::string_view text, std::size_t at, bool numbers_alone) noexcept {
  if (text[at] == '\'')
    if (const std::size_t end = contraction_end(text, at, false); end > at) return end;
  const ClassifiedChar first = classify(text, at);
  const std::size_t second = at + first.character.length;
  if (first.kind == CharClass::number && numbers_alone) return second;
  if (first.kind != CharClass::space) return run_end(text, second, first.kind);
  if (text[at] == ' ' && second < text.size()) {
    const ClassifiedChar next = classify(text, second);
    const bool joins = next.kind != CharClass::space && !(next.kind == CharClass::number && numbers_alone);
    if (joins) return run_end(text, second, next.kind);
  }
  const SpaceRun run = space_run(text, at);
  const bool at_end = run.end == text.size() || (numbers_alone && classify(text, run.end).kind == CharClass::number);
  return space_end(run, at, !at_end);
}

//  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ where no letter and no number starts at `at`; `second`
// is behind its first character. With slashes: [\r\n/]*.
std::size_t tail_end(std::string_view text, std::size_t at, std::size_t second, bool slashes) noexcept {
  const std::size_t symbols = text[at] == ' ' ? second : at;
  if (std::size_t end = run_end(text, symbols, CharClass::other); end > symbols) {
    while (end < text.size() && (is_newline(text[end]) || (slashes && text[end] == '/'))) ++end;
    return end;
  }
  const SpaceRun run = space_run(text, at);
  return run.newlines > 0 ? run.newlines : space_end(run, at, run.end < text.size());
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,max}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
std::size_t llama3_end(std::string_view text, std::size_t at, std::size_t max_numbers) noexcept {
  if (text[at] == '\'')
    if (const std::size_t end = contraction_end(text, at, true); end > at) return end;
  const ClassifiedChar first = classify(text, at);
  const std::size_t second = at + first.character.length;
  if (first.kind == CharClass::letter) return run_end(text, second, CharClass::letter);
  if (first.kind == CharClass::number) return run_end(text, second, CharClass::number, max_numbers - 1);
  if (!is_newline(text[at]))
    if (const std::size_t end = run_end(text, second, CharClass::letter); end > second) return end;
  return tail_end(text, at, second, false);
}

// The end of the run from `at` of letters and marks that holds no capital behind a small letter:
// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+, or else
// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+; `at` if neither is there.
struct CasedRun {
  std::size_t end;
  bool ends_small;  // the first expression matched
};
CasedRun cased_run(std::string_view text, std::size_t at) noexcept {
  const auto kind_at = [&](std::size_t place, std::size_t& next) {
    const Char c = decode_char(text, place);
    next = place + c.length;
    return c.valid ? kind_of(c.code) : CharKind::other;
  };
  const auto is_either = [](CharKind kind) { return kind == CharKind::caseless || kind == CharKind::mark; };
  std::size_t place = at, next = at, behind_last_either = at;
  CharKind kind = kind_at(place, next);
  for (; kind == CharKind::upper || is_either(kind); kind = kind_at(place, next)) {
    place = next;
    if (is_either(kind)) behind_last_either = next;
  }
  if (kind == CharKind::lower) {
    for (; kind == CharKind::lower || is_either(kind); kind = kind_at(place, next)) place = next;
    return {place, true};
  }
  // Capitals to the end: the first expression gives back what it took until one is left that may end a word.
  if (behind_last_either > at) return {behind_last_either, true};
  return {place, false};
}

// [^\r\n\p{L}\p{N}]?U*S+|[^\r\n\p{L}\p{N}]?U+S*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|
// \s*[\r\n]+|\s+(?!\S)|\s+ with U and S as above.
std::size_t tekken_end(std::string_view text, std::size_t at) noexcept {
  const ClassifiedChar first = classify(text, at);
  const std::size_t second = at + first.character.length;
  if (first.kind == CharClass::number) return second;
  if (first.kind == CharClass::letter) return cased_run(text, at).end;
  if (!is_newline(text[at])) {
    const CasedRun run = cased_run(text, second);
    if (run.ends_small) return run.end;
    // Without a character in front, a mark is a word of its own.
    if (first.character.valid && kind_of(first.character.code) == CharKind::mark) return second;
    if (run.end > second) return run.end;
  }
  return tail_end(text, at, second, true);
}

// One expression of several: what it matches is a piece, and so is what lies between two matches.
struct Split {
  bool (*holds)(Char c) noexcept;
  bool leading_space = false;   // \s? in front
  bool many = true;             // + behind
  bool trailing_space = false;  // \s+$ instead of all this
};

// The letters that the expression of deepseek-llm lists: those with case in Unicode 11, but for a few.
constexpr CodeRange deepseek_letters[] = {
#include "deepseek_letters.inc"
};

bool is_deepseek_letter(Char c) noexcept { return is_in(deepseek_letters, c.code); }
bool is_line_break(Char c) noexcept { return c.code == '\n' || c.code == '\r'; }
bool is_letter(Char c) noexcept { return class_of(c.code) == CharClass::letter; }
bool is_number(Char c) noexcept { return class_of(c.code) == CharClass::number; }
bool is_punctuation(Char c) noexcept { return kind_of(c.code) == CharKind::punctuation; }
bool is_space(Char c) noexcept { return class_of(c.code) == CharClass::space; }

// [!-/:-~！-／：-～‘-‟　-。]: with the letters of ASCII, which lie between ':' and '~'.
bool is_deepseek_symbol(Char c) noexcept {
  static constexpr CodeRange ranges[] = {{'!', '/'}, {':', '~'}, {0x2018, 0x201F}, {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};
  return is_in(ranges, c.code);
}

// [一-龥ࠀ-一가-퟿]
bool is_east_asian(Char c) noexcept { return (c.code >= 0x800 && c.code <= 0x9FA5) || (c.code >= 0xAC00 && c.code <= 0xD7FF); }

constexpr Split deepseek_llm_splits[] = {
    {.holds = is_line_break, .many = false},
    {.holds = is_deepseek_letter, .leading_space = true},
    {.holds = is_deepseek_symbol, .leading_space = true},
    {.holds = is_space, .trailing_space = true},
    {.holds = is_east_asian},
    {.holds = is_number},
};
constexpr Split deepseek_coder_splits[] = {
    {.holds = is_line_break, .many = false},
    {.holds = is_letter, .leading_space = true},
    {.holds = is_punctuation, .leading_space = true},
    {.holds = is_east_asian},
    {.holds = is_number, .many = false},
};

// The white space that ends the text; its start, or the text's end.
std::size_t trailing_space(std::string_view text, std::size_t at) noexcept {
  std::size_t start = at;
  while (at < text.size()) {
    const Char c = decode_char(text, at);
    at += c.length;
    if (!c.valid || !is_space(c)) start = at;
  }
  return start;
}

// Where a match that starts at `at` has its first character that `holds`; npos if none starts there.
std::size_t match_start(const Split& split, std::string_view text, std::size_t at) noexcept {
  const auto holds_at = [&](std::size_t place, Char& c) {
    c = decode_char(text, place);
    return c.valid && split.holds(c);
  };
  Char first, second;
  const bool held = holds_at(at, first);
  if (split.leading_space && first.valid && is_space(first) && holds_at(at + first.length, second)) return at + first.length;
  return held ? at : std::string_view::npos;
}

// The end of the match or of what lies before the next one, from `at`.
std::size_t split_end(const Split& split, std::string_view text, std::size_t at) noexcept {
  if (split.trailing_space) {
    const std::size_t start = trailing_space(text, at);
    return start > at ? start : text.size();
  }
  std::size_t end = match_start(split, text, at);
  if (end == std::string_view::npos) {
    for (end = at + decode_char(text, at).length; end < text.size(); end += decode_char(text, end).length)
      if (match_start(split, text, end) != std::string_view::npos) break;
    return end;
  }
  do {
    end += decode_char(text, end).length;
    const Char c = decode_char(text, end);
    if (!split.many || !c.valid || !split.holds(c)) break;
  } while (true);
  return end;
}

// The end of the piece that starts at `at`, which is below text.size(), by one expression.
std::size_t piece_end(const PreTokenizer& pre_tokenizer, std::string_view text, std::size_t at) noexcept {
  switch (pre_tokenizer.rule) {
    case Rule::gpt2: return gpt2_end(text, at, false);
    case Rule::digits_gpt2: return gpt2_end(text, at, true);
    case Rule::tekken: return tekken_end(text, at);
    default: return llama3_end(text, at, pre_tokenizer.max_numbers);
  }
}

}  // namespace

std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name) noexcept {
  const auto found = std::ranges::find(table, name, &Named::name);
  if (found == std::end(table)) return std::nullopt;
  return found->pre_tokenizer;
}

std::string_view PieceReader::next() noexcept {
  if (at_ == text_.size()) return {};
  const bool staged = pre_tokenizer_.rule == Rule::deepseek_llm || pre_tokenizer_.rule == Rule::deepseek_coder;
  const std::size_t start = at_;
  at_ = staged ? staged_end() : piece_end(pre_tokenizer_, text_, at_);
  return text_.substr(start, at_ - start);
}

std::size_t PieceReader::staged_end() noexcept {
  const std::span<const Split> splits = pre_tokenizer_.rule == Rule::deepseek_llm ? std::span<const Split>(deepseek_llm_splits)
                                                                                  : std::span<const Split>(deepseek_coder_splits);
  static_assert(std::size(deepseek_llm_splits) <= std::tuple_size_v<decltype(ends_)> &&
                std::size(deepseek_coder_splits) <= std::tuple_size_v<decltype(ends_)>);
  std::size_t end = text_.size();
  for (std::size_t i = 0; i < splits.size(); ++i) {
    if (ends_[i] <= at_) ends_[i] = split_end(splits[i], text_.substr(0, end), at_);
    end = ends_[i];
  }
  return end;
}

}  // namespace tokenizer

std::string known_pre_tokenizers() {
  std::string names;
  for (const auto& named : tokenizer::table) {
    if (!names.empty()) names += ", ";
    names += named.name;
  }
  return names;
}

}  // namespace quern
