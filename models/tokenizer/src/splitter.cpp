// How a text is cut into the pieces that the model encodes one by one.
#include "splitter.hpp"

#include "byte_alphabet.hpp"
#include "package_sets.hpp"
#include "unicode.hpp"

#include "quern/base/concat.hpp"
#include "quern/base/terminal_text.hpp"

#include <algorithm>

namespace quern::tokenizer {
namespace {

bool is_ascii_sign(char32_t code) noexcept {
  constexpr CodeRange signs[] = {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}};
  return is_in(signs, code);
}
bool is_white_space(char32_t code) noexcept { return class_of(code) == CharClass::space; }
bool is_punctuation_of_package(char32_t code) noexcept {
  if (code < 0x80) return is_ascii_sign(code);
  return code == 0x166D || code == 0x111C9 || (kind_of(code) == CharKind::punctuation && !is_in(newer_punctuation, code));
}
bool is_numeric(char32_t code) noexcept {  // of Unicode 17
  constexpr CodeRange newer[] = {{0x11DE0, 0x11DE9}, {0x16FF4, 0x16FF6}};
  return class_of(code) == CharClass::number || is_in(newer, code);
}
bool is_word_char(char32_t code) {
  static const CharTest words(word_set() | CharSet({{0x200C, 0x200D}}));
  return words(code);
}

/// New text made of the pieces, each changed by to(begin, end, out).
template <typename To>
void rewrite(Pieces& pieces, const To& to) {
  NormalText out = pieces.text.empty_copy();
  for (TextRange& range : pieces.ranges) {
    const std::size_t begin = out.bytes.size();
    to(range.begin, range.end, out);
    range = {begin, out.bytes.size()};
  }
  pieces.text = std::move(out);
}

struct KnownExpression {
  std::string_view text;
  const char* rule;
};

// Expressions as the models' own files have them, and the name of the rule that is computed by hand.
constexpr KnownExpression known_expressions[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", "gpt-2"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)", "dbrx"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)", "grok-2"},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "tekken"},
};

/// The rule of an expression whose matches join to the text.
std::optional<PreTokenizer> known_rule(std::string_view expression) {
  const auto known = std::ranges::find(known_expressions, expression, &KnownExpression::text);
  if (known == std::end(known_expressions)) return std::nullopt;
  const std::optional<PreTokenizer> named = find_pre_tokenizer(known->rule);
  return PreTokenizer{.rule = named->rule, .max_numbers = named->max_numbers};
}

}  // namespace

Splitter::Splitter(const Json* json, bool spells_bytes) {
  for (const StepJson& step : steps_of("pre_tokenizer", json, "pretokenizers")) add_step(step);
  if (spells_bytes && !steps_.empty() && std::holds_alternative<Bytes>(steps_.back())) {
    steps_.pop_back();
    leaves_bytes_ = true;
  }
  if (steps_.size() == 1 && std::holds_alternative<Rule>(steps_[0])) rule_ = std::get<Rule>(steps_[0]).rule;
}

Splitter::Behaviour Splitter::behaviour_of(const StepJson& json, std::string_view otherwise) {
  const std::string name = json.text("behavior", otherwise);
  constexpr std::pair<std::string_view, Behaviour> names[] = {{"Removed", Behaviour::removed},
                                                              {"Isolated", Behaviour::isolated},
                                                              {"MergedWithPrevious", Behaviour::with_previous},
                                                              {"MergedWithNext", Behaviour::with_next},
                                                              {"Contiguous", Behaviour::contiguous}};
  for (const auto& [known, behaviour] : names)
    if (name == known) return behaviour;
  json.bad(concat("with the behaviour ", in_quotes(name, 32)));
}

void Splitter::add_step(const StepJson& json) {
  const std::string& type = json.type();
  if (type == "Split") {
    Split split{Pattern(json), behaviour_of(json, ""), json.flag("invert", false)};
    const bool keeps_all = (split.behaviour == Behaviour::isolated && !split.inverted) ||
                           (split.behaviour == Behaviour::removed && split.inverted);
    const auto rule = split.pattern.regex != nullptr && keeps_all ? known_rule(split.pattern.regex->pattern()) : std::nullopt;
    if (rule) steps_.emplace_back(Rule{*rule});
    else steps_.emplace_back(std::move(split));
  } else if (type == "ByteLevel") {
    if (json.flag("add_prefix_space", true)) steps_.emplace_back(SpacePrefix{});
    if (json.flag("use_regex", true)) steps_.emplace_back(Rule{PreTokenizer{.rule = PreTokenizer::Rule::gpt2}});
    steps_.emplace_back(Bytes{});
  } else if (type == "Metaspace") {
    Metaspace step{json.text("replacement", "\xE2\x96\x81"), false, false, json.flag("split", true)};
    const std::string scheme = json.text("prepend_scheme", json.flag("add_prefix_space", true) ? "always" : "never");
    step.always = scheme == "always";
    step.first = scheme == "first";
    if (!step.always && !step.first && scheme != "never") json.bad(concat("with the scheme ", in_quotes(scheme, 32)));
    if (decode_char(step.replacement, 0).length != step.replacement.size() || step.replacement.empty())
      json.bad("whose 'replacement' is not one character");
    steps_.emplace_back(std::move(step));
  } else if (type == "Digits") {
    steps_.emplace_back(Characters{is_numeric, json.flag("individual_digits", false) ? Behaviour::isolated : Behaviour::contiguous});
  } else if (type == "Whitespace") {
    steps_.emplace_back(Words{});
  } else if (type == "WhitespaceSplit") {
    steps_.emplace_back(Characters{is_white_space, Behaviour::removed});
  } else if (type == "Punctuation") {
    steps_.emplace_back(Characters{is_punctuation_of_package, behaviour_of(json, "Isolated")});
  } else if (type == "BertPreTokenizer") {
    steps_.emplace_back(Characters{is_white_space, Behaviour::removed});
    steps_.emplace_back(Characters{is_punctuation_of_package, Behaviour::isolated});
  } else if (type == "CharDelimiterSplit") {
    const std::string text = json.require_text("delimiter");
    const Char c = decode_char(text, 0);
    if (!c.valid || c.length != text.size()) json.bad("whose 'delimiter' is not one character");
    steps_.emplace_back(Delimiter{c.code});
  } else {
    json.unsupported("that is not computed here");
  }
}

void Splitter::apply(Pieces& pieces) const {
  for (const Step& step : steps_) std::visit([&](const auto& one) { run(one, pieces); }, step);
}

/// `matches` and what lies between them, from the left, as the behaviour joins them. Empty pieces are none.
void Splitter::add_pieces(std::vector<Match>& matches, Behaviour behaviour, std::size_t begin, std::vector<TextRange>& ranges) {
  std::vector<Match> kept;
  bool previous = false;
  const auto join = [&](const Match& match, bool joins) {
    if (joins && !kept.empty()) {
      kept.back().range = {std::min(kept.back().range.begin, match.range.begin), std::max(kept.back().range.end, match.range.end)};
    } else {
      kept.push_back(match);
    }
    previous = match.matched;
  };
  switch (behaviour) {
    case Behaviour::removed:
      for (const Match& match : matches)
        if (!match.matched) kept.push_back(match);
      break;
    case Behaviour::isolated: kept = matches; break;
    case Behaviour::contiguous:
      for (const Match& match : matches) join(match, match.matched == previous);
      break;
    case Behaviour::with_previous:
      for (const Match& match : matches) join(match, match.matched && !previous);
      break;
    case Behaviour::with_next:
      for (auto match = matches.rbegin(); match != matches.rend(); ++match) join(*match, match->matched && !previous);
      std::ranges::reverse(kept);
      break;
  }
  for (const Match& match : kept)
    if (match.range.end > match.range.begin) ranges.push_back({begin + match.range.begin, begin + match.range.end});
  matches.clear();
}

void Splitter::run(const Rule& step, Pieces& pieces) {
  std::vector<TextRange> ranges;
  for (const TextRange& range : pieces.ranges) {
    PieceReader reader(step.rule, std::string_view(pieces.text.bytes).substr(range.begin, range.end - range.begin));
    std::size_t at = range.begin;
    for (std::string_view piece = reader.next(); !piece.empty(); piece = reader.next()) {
      ranges.push_back({at, at + piece.size()});
      at += piece.size();
    }
  }
  pieces.ranges = std::move(ranges);
}

void Splitter::run(const Split& step, Pieces& pieces) {
  std::vector<TextRange> ranges;
  std::vector<Match> matches;
  RegexBudget budget(pieces.text.bytes.size());
  for (const TextRange& range : pieces.ranges) {
    const std::string_view text = std::string_view(pieces.text.bytes).substr(range.begin, range.end - range.begin);
    std::size_t at = 0;
    const auto add = [&](TextRange part, bool matched) { matches.push_back({part, matched != step.inverted}); };
    step.pattern.each_match(text, budget, [&](TextRange match) {
      if (match.begin != at) add({at, match.begin}, false);
      add(match, true);
      at = match.end;
    });
    if (at != text.size()) add({at, text.size()}, false);
    add_pieces(matches, step.behaviour, range.begin, ranges);
  }
  pieces.ranges = std::move(ranges);
}

namespace {

/// Calls part(begin, end, holds) for each character that holds and for what lies between them.
template <typename Holds, typename Part>
void each_character(std::string_view text, const Holds& holds, const Part& part) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Char c = decode_char(text, at);
    const std::size_t end = at + c.length;
    if (c.valid && holds(c.code)) {
      if (begin != at) part(begin, at, false);
      part(at, end, true);
      begin = end;
    }
    at = end;
  }
  if (begin != text.size()) part(begin, text.size(), false);
}

}  // namespace

void Splitter::run(const Characters& step, Pieces& pieces) {
  std::vector<TextRange> ranges;
  std::vector<Match> matches;
  for (const TextRange& range : pieces.ranges) {
    const std::string_view text = std::string_view(pieces.text.bytes).substr(range.begin, range.end - range.begin);
    each_character(text, step.holds, [&](std::size_t begin, std::size_t end, bool holds) { matches.push_back({{begin, end}, holds}); });
    add_pieces(matches, step.behaviour, range.begin, ranges);
  }
  pieces.ranges = std::move(ranges);
}

void Splitter::run(const Delimiter& step, Pieces& pieces) {
  std::vector<TextRange> ranges;
  for (const TextRange& range : pieces.ranges)
    each_character(
        std::string_view(pieces.text.bytes).substr(range.begin, range.end - range.begin), [&](char32_t code) { return code == step.code; },
        [&](std::size_t begin, std::size_t end, bool holds) {
          if (!holds) ranges.push_back({range.begin + begin, range.begin + end});
        });
  pieces.ranges = std::move(ranges);
}

// Runs of word characters, and runs of what is neither a word character nor white space.
void Splitter::run(const Words&, Pieces& pieces) {
  std::vector<TextRange> ranges;
  for (const TextRange& range : pieces.ranges) {
    int last = 0;
    for (std::size_t at = range.begin; at < range.end;) {
      const Char c = decode_char(pieces.text.bytes, at);
      const int kind = is_white_space(c.code) ? 0 : is_word_char(c.code) ? 1 : 2;
      if (kind != 0) {
        if (kind == last) ranges.back().end = at + c.length;
        else ranges.push_back({at, at + c.length});
      }
      last = kind;
      at += c.length;
    }
  }
  pieces.ranges = std::move(ranges);
}

void Splitter::run(const Metaspace& step, Pieces& pieces) {
  const NormalText before = pieces.text;
  rewrite(pieces, [&](std::size_t begin, std::size_t end, NormalText& out) {
    const std::string_view text = std::string_view(before.bytes).substr(begin, end - begin);
    const bool prefixed = step.always || (step.first && before.origin(begin) == 0);
    if (prefixed && !text.starts_with(' ') && !text.starts_with(step.replacement)) out.add(step.replacement, before, begin);
    for (std::size_t at = begin; at < end; ++at) {
      if (before.bytes[at] == ' ') out.add(step.replacement, before, at);
      else out.copy(before, at, at + 1);
    }
  });
  if (!step.split) return;
  const char32_t code = decode_char(step.replacement, 0).code;
  std::vector<TextRange> ranges;
  std::vector<Match> matches;
  for (const TextRange& range : pieces.ranges) {
    const std::string_view text = std::string_view(pieces.text.bytes).substr(range.begin, range.end - range.begin);
    each_character(
        text, [&](char32_t one) { return one == code; },
        [&](std::size_t begin, std::size_t end, bool holds) {
          matches.push_back({{begin, end}, holds});
        });
    add_pieces(matches, Behaviour::with_next, range.begin, ranges);
  }
  pieces.ranges = std::move(ranges);
}

void Splitter::run(const Bytes&, Pieces& pieces) {
  const NormalText before = pieces.text;
  rewrite(pieces, [&](std::size_t begin, std::size_t end, NormalText& out) {
    for (std::size_t at = begin; at < end; ++at) out.add(spell_byte(static_cast<unsigned char>(before.bytes[at])), before, at);
  });
}

void Splitter::run(const SpacePrefix&, Pieces& pieces) {
  const NormalText before = pieces.text;
  rewrite(pieces, [&](std::size_t begin, std::size_t end, NormalText& out) {
    if (before.bytes[begin] != ' ') out.add(" ", before, begin);
    out.copy(before, begin, end);
  });
}

}  // namespace quern::tokenizer
