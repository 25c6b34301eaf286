// Regular expressions as Oniguruma reads them in the PyPI package tokenizers (Ruby's syntax), as trees.
#pragma once

#include "char_set.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

struct RegexNode {
  enum class Kind : std::uint8_t { set, concat, alternation, repeat, atomic, look, anchor };
  enum class Mode : std::uint8_t { greedy, lazy, possessive };
  enum class Anchor : std::uint8_t { text_start, text_end, text_end_or_newline, line_start, line_end, word_bound, no_word_bound };
  static constexpr std::uint32_t no_most = UINT32_MAX;

  Kind kind = Kind::concat;  // without children it matches the empty text
  std::vector<RegexNode> children{};
  std::size_t set = 0;                  // set: its place in RegexTree::sets
  std::uint32_t least = 0, most = 0;    // repeat
  Mode mode = Mode::greedy;             // repeat
  bool ahead = true, negative = false;  // look
  Anchor anchor = Anchor::text_start;   // anchor
};

struct RegexTree {
  RegexNode root;
  std::vector<CharSet> sets;
};

/// Throws Error(QUERN_UNSUPPORTED) naming the construct that is not computed, Error(QUERN_BAD_MODEL) for what is no expression.
RegexTree parse_regex(std::string_view pattern);

}  // namespace quern::tokenizer
