// The arithmetic of a model's split over devices.
#include "layer_split.hpp"

#include <gtest/gtest.h>

namespace quern::runtime {
namespace {

using Rooms = std::vector<std::optional<std::uint64_t>>;

TEST(LayerSplit, TheLastLayersAndTheTailGoToTheFirstDevice) {
  const LayerBytes bytes{{100, 100, 100, 100}, 50, 30};
  const LayerSplit split = split_layers(bytes, {30 + 50 + 200, std::nullopt});
  EXPECT_EQ(split.layers, (std::vector<std::uint32_t>{2, 2}));
  EXPECT_EQ(split.device_of(0), 1u);
  EXPECT_EQ(split.device_of(1), 1u);
  EXPECT_EQ(split.device_of(2), 0u);
  EXPECT_EQ(split.device_of(3), 0u);
  EXPECT_EQ(split.tail_device(), 0u);
  EXPECT_EQ(split.range(0).first, 2u);
  EXPECT_EQ(split.range(1).end, 2u);
}

TEST(LayerSplit, OneByteDecides) {
  const LayerBytes bytes{{7, 11, 13}, 5, 3};
  for (const auto& [room, layers] : {std::pair{20, 0u}, {21, 1u}, {31, 1u}, {32, 2u}, {38, 2u}, {39, 3u}, {1000, 3u}})
    EXPECT_EQ(split_layers(bytes, {room, std::nullopt}).layers[0], layers) << room;
}

TEST(LayerSplit, LayersOfOtherSizesAreTakenFromTheEnd) {
  EXPECT_EQ(split_layers({{1, 1, 100}, 0, 0}, {99, std::nullopt}).layers, (std::vector<std::uint32_t>{0, 3})) << "no gap in the middle";
  EXPECT_EQ(split_layers({{100, 1, 1}, 0, 0}, {99, std::nullopt}).layers, (std::vector<std::uint32_t>{2, 1}));
}

TEST(LayerSplit, ADeviceWithoutALayerHasNoTail) {
  const LayerSplit split = split_layers({{100, 100}, 10, 5}, {114, std::nullopt});
  EXPECT_EQ(split.layers, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(split.tail_device(), 1u);
  EXPECT_EQ(split.device_of(1), 1u);
}

TEST(LayerSplit, ThreeDevicesTakeTheirShareFromTheEnd) {
  const LayerBytes bytes{{10, 10, 10, 10, 10, 10}, 4, 1};
  const LayerSplit split = split_layers(bytes, {1 + 4 + 20, 1 + 30, 0});  // the last has to take the rest
  EXPECT_EQ(split.layers, (std::vector<std::uint32_t>{2, 3, 1}));
  const std::vector<std::uint32_t> devices = {2, 1, 1, 1, 0, 0};
  for (std::uint32_t l = 0; l < 6; ++l) EXPECT_EQ(split.device_of(l), devices[l]) << l;
  // One in the middle that takes none.
  const LayerSplit around = split_layers(bytes, {1 + 4 + 20, 10, std::nullopt});
  EXPECT_EQ(around.layers, (std::vector<std::uint32_t>{2, 0, 4}));
  EXPECT_EQ(around.device_of(3), 2u);
  EXPECT_EQ(around.device_of(4), 0u);
}

TEST(LayerSplit, NoSumWraps) {
  EXPECT_EQ(split_layers({{UINT64_MAX, 1}, UINT64_MAX, UINT64_MAX}, {UINT64_MAX, std::nullopt}).layers, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(split_layers({{UINT64_MAX, 1}, 1, 1}, {UINT64_MAX, std::nullopt}).layers, (std::vector<std::uint32_t>{1, 1}));
}

TEST(LayersToMove, HalfOfThoseThatHoldWhatIsLackingAndAtLeastOne) {
  const LayerBytes bytes{{10, 10, 10, 10, 10, 10, 10, 10}, 0, 0};
  EXPECT_EQ(layers_to_move(bytes, {2, 8}, 1), 1u);
  EXPECT_EQ(layers_to_move(bytes, {2, 8}, 20), 1u);
  EXPECT_EQ(layers_to_move(bytes, {2, 8}, 31), 2u);
  EXPECT_EQ(layers_to_move(bytes, {2, 8}, UINT64_MAX), 3u);
  EXPECT_EQ(layers_to_move(bytes, {7, 8}, 5), 1u);
}

TEST(LayersToMove, AModelOfManyLayersIsAskedAboutAFewTimes) {
  // A device whose program needs half as much again as the layers' own bytes, and has room for ten of 4,096.
  const LayerBytes bytes{std::vector<std::uint64_t>(4096, 100), 0, 0};
  std::uint32_t layers = 4096, asked = 0;
  for (; layers * 150 > 1500; ++asked) layers -= layers_to_move(bytes, {4096 - layers, 4096}, layers * 150 - 1500);
  EXPECT_EQ(layers, 10u);
  EXPECT_LE(asked, 40u);  // each time a quarter of what is too much goes at least: log(4096) / log(4 / 3) is 29
}

TEST(LimitText, HoldsWhatIsAskedAndAtMostOnePerCentMore) {
  EXPECT_EQ(limit_text(std::uint64_t{8} << 30), "8G");
  EXPECT_EQ(limit_text((std::uint64_t{8} << 30) + 1), "8193M");
  EXPECT_EQ(limit_text(64 << 20), "64M");
  EXPECT_EQ(limit_text((64 << 20) + 1), "65537K");
  EXPECT_EQ(limit_text(1000), "1000");
}

}  // namespace
}  // namespace quern::runtime
