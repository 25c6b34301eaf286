// Finds the matches of a regular expression that comes from a file, within a number of steps that the text's size gives.
//
// Leftmost, and the first alternative that matches, as in Oniguruma: a backtracking matcher with a stack of its own. A byte that is no
// UTF-8 counts as one character U+FFFD.
#pragma once

#include "regex_syntax.hpp"

#include "quern/models/tokenizer.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

/// Steps that the expressions of one text may take together.
class RegexBudget {
 public:
  /// The expressions of published models take up to 8 steps a byte; a step takes 5 to 25 ns.
  explicit RegexBudget(std::size_t text_bytes) noexcept : left_(16 * std::uint64_t{text_bytes} + (1 << 20)) {}

  std::uint64_t left() const noexcept { return left_; }
  void spend(std::uint64_t steps) noexcept { left_ -= steps; }

 private:
  std::uint64_t left_;
};

class Regex {
 public:
  /// Throws as parse_regex() does, and Error(QUERN_UNSUPPORTED) for an expression that grows too large.
  explicit Regex(std::string_view pattern);

  const std::string& pattern() const noexcept { return pattern_; }

 private:
  friend class RegexCompiler;
  friend class RegexMatches;
  enum class Op : std::uint8_t {
    set,           // one character of set a
    repeat,        // of set a, b to c times, as many as there are
    repeat_whole,  // the same, never fewer afterwards
    either,        // a, or else b
    jump,          // to a
    enter_loop,    // a turn of the loop that has place a starts here
    leave_empty,   // to b if that turn took nothing
    bar,           // what is tried up to the matching cut is forgotten there
    bar_negative,  // the same; without the cut, goes on at a
    cut,
    cut_back,  // and goes on where the bar was
    cut_fail,  // and fails
    back,      // a characters
    anchor,    // of kind a
    match,
  };
  struct Step {
    Op op;
    std::uint32_t a = 0, b = 0, c = 0;
  };

  std::string pattern_;
  std::vector<CharTest> sets_;
  std::vector<Step> program_;
  std::uint32_t loops_ = 0;
  std::array<bool, 256> may_start_{};  // by first byte
  CharTest words_;
};

/// The matches in one text, one after another, none overlapping another.
class RegexMatches {
 public:
  RegexMatches(const Regex& regex, std::string_view text, RegexBudget& budget);

  /// Throws Error(QUERN_UNSUPPORTED) with the expression where the steps are used up.
  std::optional<TextRange> next();

 private:
  enum class Saved : std::uint32_t { other, fewer, loop, bar, bar_negative };
  struct Frame {
    Saved kind;
    std::uint32_t step;   // where to go on; of a loop: its place
    std::uint32_t at;     // in the text
    std::uint32_t least;  // fewer: where the characters that must stay end
  };

  std::optional<std::size_t> match_at(std::size_t start);
  bool fail(std::uint32_t& step, std::size_t& at) noexcept;
  Frame cut() noexcept;
  void push(const Frame& frame);
  std::size_t repeat(const Regex::Step& step, std::size_t at, bool& enough, std::size_t& least);
  bool holds_anchor(RegexNode::Anchor anchor, std::size_t at) const noexcept;
  bool is_word(std::size_t at) const noexcept;
  [[noreturn]] void give_up() const;

  const Regex& regex_;
  std::string_view text_;
  RegexBudget& budget_;
  std::uint64_t steps_left_ = 0;
  std::vector<Frame> frames_;
  std::vector<std::uint32_t> loop_starts_;
  std::size_t from_ = 0;
  std::optional<std::size_t> last_end_;
};

}  // namespace quern::tokenizer
