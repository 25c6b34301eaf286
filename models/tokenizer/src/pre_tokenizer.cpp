// Cuts a text into the pieces inside which byte-level BPE merges.
#include "pre_tokenizer.hpp"

#include "unicode.hpp"

#include "quern/models/tokenizer.hpp"

#include <algorithm>

namespace quern {
namespace tokenizer {
namespace {

using Rule = PreTokenizer::Rule;

struct Named {
  std::string_view name;
  PreTokenizer pre_tokenizer;
};

constexpr PreTokenizer gpt2{.rule = Rule::gpt2};
constexpr PreTokenizer smollm{.rule = Rule::digits_gpt2};
constexpr PreTokenizer llama3{
    .rule = Rule::llama3, .max_numbers = 3, .ignore_merges = true, .starts_with_bos = true};
constexpr PreTokenizer qwen2{.rule = Rule::llama3, .max_numbers = 1, .nfc = true};

constexpr Named table[] = {
    {"default", gpt2},  {"gpt-2", gpt2},  {"llama-bpe", llama3}, {"llama-v3", llama3},
    {"llama3", llama3}, {"qwen2", qwen2}, {"smollm", smollm},    {"starcoder", smollm},
};

// The end of the run of characters of class `kind` from `at`, which may be empty.
std::size_t run_end(std::string_view text, std::size_t at, CharClass kind,
                    std::size_t max = SIZE_MAX) noexcept {
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
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
    return at + 3;
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
  const bool at_end =
      run.end == text.size() || (numbers_alone && classify(text, run.end).kind == CharClass::number);
  return space_end(run, at, !at_end);
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
  const std::size_t symbols = text[at] == ' ' ? second : at;
  if (std::size_t end = run_end(text, symbols, CharClass::other); end > symbols) {
    while (end < text.size() && is_newline(text[end])) ++end;
    return end;
  }
  const SpaceRun run = space_run(text, at);
  return run.newlines > 0 ? run.newlines : space_end(run, at, run.end < text.size());
}

}  // namespace

std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name) noexcept {
  const auto found = std::ranges::find(table, name, &Named::name);
  if (found == std::end(table)) return std::nullopt;
  return found->pre_tokenizer;
}

std::size_t piece_end(const PreTokenizer& pre_tokenizer, std::string_view text, std::size_t at) noexcept {
  switch (pre_tokenizer.rule) {
    case Rule::gpt2:
      return gpt2_end(text, at, false);
    case Rule::digits_gpt2:
      return gpt2_end(text, at, true);
    case Rule::llama3:
      break;
  }
  return llama3_end(text, at, pre_tokenizer.max_numbers);
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
