// Weights of the packers' own programs decode to the numbers of their own decoders.
#include "packed_golden.hpp"

#include <gtest/gtest.h>

namespace quern::test {
namespace {

class PackedWeights : public testing::TestWithParam<std::string> {};

TEST_P(PackedWeights, DecodeToTheNumbersOfThePacker) {
  for (const models::ActOrder act_order : {models::ActOrder::expanded, models::ActOrder::by_groups})
    EXPECT_EQ(PackedGolden(GetParam(), act_order).difference(directory::quantised_weight), "");
}

TEST_P(PackedWeights, InTheOrderOfActivationsStayBlocksByGroups) {
  const bool has_order = GetParam().find("act-order") != std::string::npos;
  const PackedGolden::Shape expanded = PackedGolden(GetParam(), models::ActOrder::expanded).shape(),
                            by_groups = PackedGolden(GetParam()).shape();
  EXPECT_EQ(expanded.is_expanded, has_order);
  EXPECT_FALSE(expanded.has_order);
  EXPECT_FALSE(by_groups.is_expanded);
  EXPECT_EQ(by_groups.has_order, has_order);
  EXPECT_TRUE(by_groups.is_block);
}

INSTANTIATE_TEST_SUITE_P(All, PackedWeights, testing::ValuesIn(packed_goldens()), [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace quern::test
