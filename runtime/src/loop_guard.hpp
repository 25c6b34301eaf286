// Notices an answer that goes in circles: the last tokens are one cycle, over and over.
//
// Only an exact cycle counts, and only a long one: at least 256 tokens in a row, each the same as the one a period before it, and at least
// three more rounds of a long period. A list whose items differ, a table, a block of code with a changing name or number never is one; a
// row of 200 zeros is below the limit. Work: one comparison a period and token, 256 in all, below a microsecond.
#pragma once

#include <array>
#include <cstdint>

namespace quern::runtime {

class LoopGuard {
 public:
  static constexpr std::uint32_t longest_period = 256;  // tokens: a long paragraph
  static constexpr std::uint32_t least_repeated = 256;  // tokens that say nothing new
  static constexpr std::uint32_t least_rounds = 3;      // after the first one

  /// Takes the answer's next token. True if the answer has gone in circles up to this token.
  bool push(std::int32_t token) noexcept;

 private:
  std::array<std::int32_t, longest_period> last_{};       // a ring
  std::array<std::uint32_t, longest_period> repeated_{};  // by period less one: how many tokens in a row are as the one a period before
  std::uint64_t count_ = 0;
};

}  // namespace quern::runtime
