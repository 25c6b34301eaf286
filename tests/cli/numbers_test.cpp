#include "numbers.hpp"

#include <gtest/gtest.h>

namespace quern::cli {
namespace {

TEST(ParseCount, TakesDigitsUpToALimit) {
  EXPECT_EQ(parse_count("12", 12), 12u);
  for (const char* wrong : {"", "13", "-1", "+1", "1.0", "1 ", "99999999999999999999999"})
    EXPECT_EQ(parse_count(wrong, 12), std::nullopt) << wrong;
}

TEST(WithCommas, GroupsByThree) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(7241732096), "7,241,732,096");
}

TEST(Fixed, HasSoManyDecimals) {
  EXPECT_EQ(fixed(1.25, 1), "1.2");
  EXPECT_EQ(fixed(41, 2), "41.00");
}

}  // namespace
}  // namespace quern::cli
