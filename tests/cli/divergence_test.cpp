#include "divergence.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace quern::cli {
namespace {

TEST(Divergence, OfTwoTokensIsTheFormula) {
  // p = 3/4 and 1/4, q = 1/2 and 1/2; a constant added to all logits of a model changes nothing.
  const std::array<float, 2> p = {std::log(3.0f), 0}, q = {7, 7};
  Divergence d;
  d.add(p, q);
  EXPECT_NEAR(d.mean(), 0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-7);  // logits are f32
  EXPECT_EQ(d.same_best, 1u);                                                // of equals the lowest
  d.add(p, p);
  EXPECT_EQ(d.positions, 2u);
  EXPECT_DOUBLE_EQ(d.mean(), d.most / 2);
}

TEST(Divergence, ATokenThatTheReferenceExcludesCountsNothingAndNaNIsKept) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::array<float, 3> p = {0, 0, -infinity}, q = {0, 0, 0}, bad = {0, nan, 0};
  Divergence d;
  d.add(p, q);
  EXPECT_NEAR(d.mean(), std::log(1.5), 1e-15);
  d.add(p, bad);
  d.add(p, q);
  EXPECT_TRUE(std::isnan(d.mean()));
  EXPECT_TRUE(std::isnan(d.most));
}

}  // namespace
}  // namespace quern::cli
