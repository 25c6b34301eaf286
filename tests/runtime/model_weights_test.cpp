#include "model_weights.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

namespace quern::runtime {
namespace {

TEST(ModelWeights, OfAnArenaEachStartsWhereItsDeviceTakesSpans) {
  for (const std::uint64_t alignment : std::initializer_list<std::uint64_t>{64, 256, 4096}) {
    std::uint64_t offset = 0;
    for (const std::uint64_t bytes : std::initializer_list<std::uint64_t>{1, 63, 64, 65, 255, 320, 4097}) {
      const WantedWeight weight{{"t", 0, ""}, bytes, graph::no_value, alignment};
      EXPECT_GE(weight.arena_bytes(), bytes);
      EXPECT_LT(weight.arena_bytes(), bytes + alignment);
      offset += weight.arena_bytes();
      EXPECT_EQ(offset % alignment, 0u) << bytes << " bytes, alignment " << alignment;
    }
  }
}

}  // namespace
}  // namespace quern::runtime
