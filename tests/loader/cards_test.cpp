// Cards on the bus that nothing uses, and cards that CUDA_VISIBLE_DEVICES hides.
#include "fixture.hpp"
#include "graphics_cards.hpp"
#include "visibility.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace quern::loader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

int warnings_about_cards(const Report& report) {
  return static_cast<int>(
      std::ranges::count_if(report.entries, [](const ReportEntry& e) { return e.code == "QUERN-L-0701" && e.status == Status::warning; }));
}

TEST(Cards, ACardWithoutABackendIsOneWarningThatNamesIt) {
  Machine m;
  m.add({"cpu"});
  m.add_card("0000:41:00.0", "0x10de", "0x2331", "0x030200");
  m.add_card("0000:00:1f.0", "0x8086", "0x1234", "0x060100");  // not a graphics card
  Loader loader(m.settings());
  EXPECT_EQ(warnings_about_cards(loader.report()), 1);
  const ReportEntry note = entry_with(loader.report(), "QUERN-L-0701");
  EXPECT_THAT(note.cause, HasSubstr("the NVIDIA card 10de:2331 at 0000:41:00.0 (no kernel driver) is not "
                                    "used: no installed backend drives it"));
  EXPECT_THAT(note.remedy, HasSubstr("quern-backend-cuda"));
  EXPECT_THAT(m.log_lines(), testing::Contains(HasSubstr("3 loader: QUERN-L-0701")));
}

TEST(Cards, TheReasonIsThatOfThePluginThatShouldHaveTakenIt) {
  Machine m;
  m.add({"cpu", "probe_misses_library"});
  m.add_card("0000:41:00.0", "0x1002", "0x744c");
  const ReportEntry note = entry_with(Loader(m.settings()).report(), "QUERN-L-0701");
  EXPECT_THAT(note.cause, HasSubstr("libzoo_driver.so.1"));
  EXPECT_EQ(note.remedy, "install zoo-driver-package");
}

TEST(Cards, AUsedCardAConsoleAdapterAndADemandAreNoNews) {
  Machine m;
  m.add({"cpu", "cuda"});
  m.add_card("0000:01:00.0", "0x10de", "0x2331");
  m.add_card("0000:01:01.0", "0x10de", "0x2331");
  m.add_card("0000:02:00.0", "0x1a03", "0x2000");  // ASPEED
  EXPECT_EQ(warnings_about_cards(Loader(m.settings()).report()), 0);
  m.add_card("0000:09:00.0", "0x1002", "0x744c");
  EXPECT_EQ(warnings_about_cards(Loader(m.settings()).report()), 1);
  Settings s = m.settings();
  s.backends.set({"cpu"}, "QUERN_BACKEND");
  EXPECT_EQ(warnings_about_cards(Loader(s).report()), 0) << "the user asked for the CPU";
}

TEST(Cards, ADamagedSysfsIsNoCard) {
  Machine m;
  m.add_card("0000:01:00.0", "nonsense", "", "0x030000");
  m.add_card("not-an-address", "0x10de", "0x1");
  write_file(m.root / "sys/bus/pci/devices/0000:02:00.0", "a file, not a folder");
  const std::vector<GraphicsCard> cards = list_graphics_cards(m.root / "sys");
  ASSERT_EQ(cards.size(), 1u);
  EXPECT_EQ(cards[0].vendor, 0u);
  EXPECT_TRUE(list_graphics_cards("/nonexistent").empty());
}

Candidate vulkan_card(const std::string& pci, std::uint8_t uuid_start, std::uint32_t vendor = 0x10de) {
  Candidate c;
  c.plugin_id = "vulkan";
  c.device.vendor_id = vendor;
  c.device.pci_address = pci;
  c.device.uuid[0] = uuid_start;
  return c;
}

Setting<std::string> variable(const std::string& value) {
  Setting<std::string> s;
  s.set(value, "CUDA_VISIBLE_DEVICES");
  return s;
}

const std::vector<GraphicsCard> two_cards = {
    {"0000:01:00.0", 0x10de, 1, "nvidia"}, {"0000:02:00.0", 0x10de, 1, "nvidia"}, {"0000:03:00.0", 0x1002, 1, "amdgpu"}};

TEST(CudaVisibility, NumbersFollowTheBusAndTheFirstUnknownEntryEndsTheList) {
  const auto hides = [](const std::string& value, const Candidate& c) {
    return CudaVisibility(variable(value), nullptr, two_cards).hides(c).has_value();
  };
  const Candidate first = vulkan_card("0000:01:00.0", 0xaa), second = vulkan_card("0000:02:00.0", 0xbb);
  EXPECT_FALSE(hides("0", first));
  EXPECT_TRUE(hides("0", second));
  EXPECT_FALSE(hides("1,0", first));
  EXPECT_TRUE(hides("", first));
  EXPECT_TRUE(hides("-1", first));
  EXPECT_TRUE(hides("1,-1,0", first));
  EXPECT_TRUE(hides("7,0", first)) << "the list ends at a card that is not there";
  EXPECT_FALSE(hides("GPU-bb", second));
  EXPECT_TRUE(hides("GPU-bb", first));
  EXPECT_FALSE(hides("-1", vulkan_card("0000:03:00.0", 1, 0x1002))) << "not a card of NVIDIA";
}

TEST(CudaVisibility, WhatTheCudaPluginListsIsTheTruth) {
  Candidate listed = vulkan_card("0000:02:00.0", 0);
  listed.plugin_id = "cuda";
  const std::vector<Candidate> cuda = {listed};
  const CudaVisibility v(variable("0"), &cuda, two_cards);  // CUDA numbers the second card 0 here
  EXPECT_FALSE(v.hides(vulkan_card("0000:02:00.0", 0)).has_value());
  EXPECT_EQ(v.hides(vulkan_card("0000:01:00.0", 0)), "CUDA_VISIBLE_DEVICES='0' hides this card");
}

TEST(CudaVisibility, AnUnsetVariableHidesNothing) {
  EXPECT_FALSE(CudaVisibility(Setting<std::string>(), nullptr, two_cards).hides(vulkan_card("0000:01:00.0", 0)).has_value());
}

TEST(CudaVisibility, AHiddenCardIsNotReachedThroughVulkan) {
  Machine m;
  m.add({"cpu", "vulkan"});  // three cards at 0000:01:00.0 to 02.0
  for (const char* address : {"0000:01:00.0", "0000:01:01.0", "0000:01:02.0"}) m.add_card(address, "0x10de", "0x2331");
  Settings s = m.settings();
  s.cuda_visible_devices.set("1", "CUDA_VISIBLE_DEVICES");
  Loader loader(s);
  EXPECT_THAT(labels(loader), ElementsAre("vulkan:1", "cpu:0"));
  EXPECT_EQ(entry_of(loader.report(), "vulkan").devices[0].code, "QUERN-L-0606");
  EXPECT_EQ(warnings_about_cards(loader.report()), 0) << "hidden on purpose";
  s.cuda_visible_devices.set("", "CUDA_VISIBLE_DEVICES");
  EXPECT_THAT(labels(Loader(s)), ElementsAre("cpu:0"));
}

}  // namespace
}  // namespace quern::loader
