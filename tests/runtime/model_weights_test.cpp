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

TEST(ModelWeights, ADeviceThatAllocatesLittleAtOnceHasSeveralArenas) {
  std::vector<WantedWeight> wanted;
  for (const std::uint64_t bytes : {100u, 28u, 200u, 1000u, 64u, 64u}) wanted.push_back({{"t", 1, ""}, bytes, graph::no_value, 64});
  wanted.insert(wanted.begin() + 1, WantedWeight{{"u", 0, ""}, 5000, graph::no_value, 64});
  using Sizes = std::vector<std::uint64_t>;
  EXPECT_EQ(arena_sizes(wanted, 1, 0), Sizes({128 + 64 + 256 + 1024 + 64 + 64}));
  EXPECT_EQ(arena_sizes(wanted, 1, 1600), Sizes({1600}));
  EXPECT_EQ(arena_sizes(wanted, 1, 1599), Sizes({128 + 64 + 256 + 1024 + 64, 64}));
  EXPECT_EQ(arena_sizes(wanted, 1, 448), Sizes({448, 1024, 128}));  // the one of 1024 is for the device to refuse
  EXPECT_EQ(arena_sizes(wanted, 0, 448), Sizes({5056}));
  EXPECT_EQ(arena_sizes(wanted, 2, 448), Sizes());
}

}  // namespace
}  // namespace quern::runtime
