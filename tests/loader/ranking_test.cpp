// The order of devices, and which of them are one.
#include "ranking.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace quern::loader {
namespace {

struct Made {
  std::uint32_t device_class = QUERN_DEVICE_DISCRETE;
  std::uint32_t vendor = 0x10de;
  std::string name = "Card";
  std::string pci = "";
  std::uint8_t uuid = 0;
  double bandwidth = 0;
};

Candidate device(const std::string& label, const Made& made) {
  Candidate c;
  c.plugin_id = label.substr(0, label.find(':'));
  c.index = static_cast<std::uint32_t>(std::stoul(label.substr(label.find(':') + 1)));
  c.label = label;
  c.device.device_class = made.device_class;
  c.device.vendor_id = made.vendor;
  c.device.name = made.name;
  c.device.pci_address = made.pci;
  c.device.uuid[0] = made.uuid;
  c.bandwidth = made.bandwidth;
  return c;
}

std::vector<std::string> order(std::vector<Candidate> candidates, const RankRules& rules = {}) {
  std::vector<std::string> made;
  for (const Candidate& c : rank(std::move(candidates), rules).order) made.push_back(c.label);
  return made;
}

using Labels = std::vector<std::string>;

TEST(Ranking, GoesByClassInEveryInputOrder) {
  std::vector<Candidate> all = {device("a:0", {.device_class = QUERN_DEVICE_CPU}), device("b:0", {.device_class = QUERN_DEVICE_INTEGRATED}),
                                device("c:0", {.device_class = QUERN_DEVICE_UNIFIED}),
                                device("d:0", {.device_class = QUERN_DEVICE_DISCRETE})};
  std::ranges::sort(all, {}, &Candidate::label);
  do {
    ASSERT_EQ(order(all), (Labels{"d:0", "c:0", "b:0", "a:0"}));
  } while (std::ranges::next_permutation(all, {}, &Candidate::label).found);
}

TEST(Ranking, WhatEndedAnEarlierRunComesLastAndLeavesASharedCardToOthers) {
  const std::vector<Candidate> all = {device("cuda:0", {.pci = "0000:01:00.0"}), device("vulkan:0", {.pci = "0000:01:00.0"}),
                                      device("cpu:0", {.device_class = QUERN_DEVICE_CPU}), device("other:0", {})};
  EXPECT_EQ(order(all, {{}, {}, {"cuda"}}), (Labels{"other:0", "vulkan:0", "cpu:0"}));
  EXPECT_EQ(order(all, {{}, {}, {"other"}}), (Labels{"cuda:0", "cpu:0", "other:0"}));
}

TEST(Ranking, EqualClassesGoByBandwidthAndThenByName) {
  EXPECT_EQ(order({device("a:0", {.name = "Slow", .bandwidth = 1e11}), device("b:0", {.name = "Zippy", .bandwidth = 3e12})}),
            (Labels{"b:0", "a:0"}));
  EXPECT_EQ(order({device("b:0", {.name = "B"}), device("a:0", {.name = "A"})}), (Labels{"a:0", "b:0"}));
}

TEST(Ranking, CardsOfOneModelKeepTheirOrderWhateverTheNoiseOfTheMeasurement) {
  EXPECT_EQ(order({device("cuda:0", {.pci = "0000:01:00.0", .bandwidth = 1.00e12}),
                   device("cuda:1", {.pci = "0000:02:00.0", .bandwidth = 1.01e12})}),
            (Labels{"cuda:0", "cuda:1"}));
}

TEST(Ranking, OneCardSeenTwiceIsServedByItsVendorsOwnApi) {
  const Ranking r = rank({device("vulkan:0", {.pci = "0000:01:00.0"}), device("cuda:0", {.pci = "0000:01:00.0"})}, {});
  ASSERT_EQ(r.order.size(), 1u);
  EXPECT_EQ(r.order[0].label, "cuda:0");
  ASSERT_EQ(r.dropped.size(), 1u);
  EXPECT_EQ(r.dropped[0].code, "QUERN-L-0604");
  EXPECT_EQ(r.dropped[0].reason, "the same device as cuda:0, which serves it");
}

TEST(Ranking, OneOfAddressAndUuidIsEnoughToKnowACard) {
  EXPECT_EQ(order({device("vulkan:0", {.uuid = 7}), device("cuda:0", {.pci = "0000:01:00.0", .uuid = 7})}), Labels{"cuda:0"});
  EXPECT_EQ(order({device("vulkan:0", {.pci = "0000:01:00.0", .uuid = 9}), device("cuda:0", {.pci = "0000:01:00.0"})}), Labels{"cuda:0"});
}

TEST(Ranking, CardsThatShareNothingAreTwo) {
  EXPECT_EQ(order({device("vulkan:0", {.pci = "0000:02:00.0"}), device("cuda:0", {.pci = "0000:01:00.0"})}).size(), 2u);
  EXPECT_EQ(order({device("vulkan:0", {}), device("cuda:0", {})}).size(), 2u) << "nothing is known of either";
}

TEST(Ranking, SlicesOfOneCardAreDevicesOfTheirOwn) {
  EXPECT_EQ(order({device("cuda:0", {.pci = "0000:01:00.0", .uuid = 1}), device("cuda:1", {.pci = "0000:01:00.0", .uuid = 2}),
                   device("vulkan:0", {.pci = "0000:01:00.0", .uuid = 3})}),
            (Labels{"cuda:0", "cuda:1"}));
}

TEST(Ranking, TwoDriversOfOneApiForOneCardCountOnce) {
  EXPECT_EQ(order({device("vulkan:0", {.vendor = 0x1002, .pci = "0000:03:00.0", .uuid = 5}),
                   device("vulkan:1", {.vendor = 0x1002, .pci = "0000:03:00.0", .uuid = 5})}),
            Labels{"vulkan:0"});
}

TEST(Ranking, ADemandDecidesTheOrderAndWhoServesASharedCard) {
  EXPECT_EQ(order({device("cpu:0", {.device_class = QUERN_DEVICE_CPU}), device("cuda:0", {})}, {.demand = {"cpu", "cuda"}, .named = {}}),
            (Labels{"cpu:0", "cuda:0"}));
  EXPECT_EQ(order({device("cuda:0", {.pci = "0000:01:00.0"}), device("vulkan:0", {.pci = "0000:01:00.0"})},
                  {.demand = {"vulkan", "cuda"}, .named = {}}),
            Labels{"vulkan:0"});
}

TEST(Ranking, ASoftwareRasteriserServesOnlyWhenNamed) {
  const std::vector<Candidate> all = {device("vulkan:0", {.device_class = QUERN_DEVICE_SOFTWARE}),
                                      device("cpu:0", {.device_class = QUERN_DEVICE_CPU})};
  EXPECT_EQ(order(all), Labels{"cpu:0"});
  EXPECT_EQ(order(all, {.demand = {"vulkan"}, .named = "vulkan:0"}), (Labels{"vulkan:0", "cpu:0"}));
  EXPECT_EQ(rank(all, {}).dropped[0].remedy, "set QUERN_DEVICE=vulkan:0 to use it");
}

TEST(Ranking, OnlyDifferentGpusOfOneClassNeedAMeasurement) {
  EXPECT_TRUE(unmeasured_ties({device("cuda:0", {}), device("cuda:1", {})}).empty()) << "the same model";
  EXPECT_TRUE(unmeasured_ties({device("cuda:0", {.name = "A"}), device("vulkan:0", {.device_class = QUERN_DEVICE_INTEGRATED, .name = "B"})})
                  .empty());
  EXPECT_EQ(unmeasured_ties({device("cuda:0", {.name = "A"}), device("vulkan:0", {.name = "B"})}), (Labels{"cuda", "vulkan"}));
}

}  // namespace
}  // namespace quern::loader
