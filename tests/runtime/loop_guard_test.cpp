// Answers that go in circles are noticed; lists, tables and code are not taken for them.
#include "loop_guard.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace quern::runtime {
namespace {

/// How many tokens it takes until the guard sees a circle.
std::optional<std::size_t> tokens_until_seen(const std::vector<std::int32_t>& tokens) {
  LoopGuard guard;
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    if (guard.push(tokens[at])) return at + 1;
  }
  return std::nullopt;
}

std::vector<std::int32_t> rounds(std::int32_t period, std::size_t tokens) {
  std::vector<std::int32_t> made;
  for (std::size_t at = 0; at < tokens; ++at) made.push_back(1000 + static_cast<std::int32_t>(at) % period);
  return made;
}

TEST(LoopGuard, SeesACircleOfAnyPeriodUpToItsLongestAsSoonAsItIsLongEnough) {
  for (const std::uint32_t period : {1u, 2u, 7u, 85u, 86u, 100u, LoopGuard::longest_period}) {
    const std::size_t expected = period + std::max(LoopGuard::least_repeated, LoopGuard::least_rounds * period);
    EXPECT_EQ(tokens_until_seen(rounds(static_cast<std::int32_t>(period), 2000)), expected) << period;
  }
}

TEST(LoopGuard, SeesACircleThatBeginsLateInAnAnswer) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t word = 0; word < 1000; ++word) tokens.push_back(word);
  const std::vector<std::int32_t> circle = rounds(5, 300);
  tokens.insert(tokens.end(), circle.begin(), circle.end());
  EXPECT_EQ(tokens_until_seen(tokens), 1000u + 5 + LoopGuard::least_repeated);
}

TEST(LoopGuard, LeavesAListAloneWhoseItemsDifferInOneWord) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t item = 0; item < 500; ++item) tokens.insert(tokens.end(), {1, 2, 5000 + item, 3, 4, 6, 7});  // "- call item_<n>(x);"
  EXPECT_EQ(tokens_until_seen(tokens), std::nullopt);
}

TEST(LoopGuard, LeavesRowsOfZerosAndRulesOfATableAlone) {
  std::vector<std::int32_t> tokens(200, 9);  // one row, longer than any line
  tokens.push_back(10);
  for (int row = 0; row < 20; ++row) {  // rows of zeros that begin with another number each, as in a dump
    tokens.push_back(6000 + row);
    tokens.insert(tokens.end(), 64, 9);
  }
  EXPECT_EQ(tokens_until_seen(tokens), std::nullopt);
}

TEST(LoopGuard, LeavesAParagraphAloneThatIsSaidThreeTimes) { EXPECT_EQ(tokens_until_seen(rounds(200, 600)), std::nullopt); }

}  // namespace
}  // namespace quern::runtime
