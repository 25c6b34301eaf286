// The measure by which other tests tell work that goes by the size of its input from work that goes by its square.
#include "support/processor_time.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace quern::test {
namespace {

void count_to(std::uint64_t end) {
  volatile std::uint64_t at = 0;
  while (at < end) at = at + 1;
}

TEST(ProcessorTime, GrowsWithTheInputOfLinearWorkAndWithItsSquareOfOther) {
  constexpr double between = 8;  // four times the input: 4 or 16
  EXPECT_LT(growth(
                between, [] { count_to(500'000); }, [] { count_to(2'000'000); }),
            between);
  constexpr double never = 0;  // all tries: the first may have been interrupted
  EXPECT_GT(growth(
                never, [] { count_to(500 * 500); }, [] { count_to(2000 * 2000); }),
            between);
}

}  // namespace
}  // namespace quern::test
