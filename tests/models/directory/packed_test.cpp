// Weights of the packers' own programs decode to the numbers of their own decoders.
#include "packed_golden.hpp"

#include <gtest/gtest.h>

namespace quern::test {
namespace {

class PackedWeights : public testing::TestWithParam<std::string> {};

TEST_P(PackedWeights, DecodeToTheNumbersOfThePacker) { EXPECT_EQ(PackedGolden(GetParam()).difference(directory::quantised_weight), ""); }

INSTANTIATE_TEST_SUITE_P(All, PackedWeights, testing::ValuesIn(packed_goldens()), [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace quern::test
