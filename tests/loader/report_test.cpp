// The report as JSON and as sentences.
#include "command.hpp"
#include "fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace quern::loader {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ReportText, IsJsonWithEveryPluginAndDevice) {
  Machine m;
  m.add({"cuda", "vulkan", "probe_fails"});
  const nlohmann::json report = nlohmann::json::parse(to_json(Loader(m.settings()).report()));
  EXPECT_EQ(report["directories"][0], m.root / "plugins");
  bool seen = false;
  for (const auto& e : report["entries"]) {
    if (e["id"] != "cuda") continue;
    seen = true;
    EXPECT_EQ(e["status"], "usable");
    EXPECT_EQ(e["stage"], "S3 probe");
    EXPECT_EQ(e["devices"][1]["label"], "cuda:1");
    EXPECT_EQ(e["devices"][1]["rank"], 0);
    EXPECT_EQ(e["devices"][1]["class"], "discrete");
    EXPECT_EQ(e["devices"][1]["pci_address"], "0000:01:01.0");
  }
  EXPECT_TRUE(seen);
}

TEST(ReportText, ReadsAsSentencesWithReasonAndRemedy) {
  Machine m;
  m.add({"cpu", "cuda", "vulkan", "probe_misses_library", "no_note"});
  const std::string words = to_words(Loader(m.settings()).report());
  EXPECT_THAT(words, HasSubstr("Searched for backends in " + m.root / "plugins" + "."));
  EXPECT_THAT(words, HasSubstr("Devices that can be used, best first:\n  1. cuda:1: Zoo One (discrete, zoo-1, 0000:01:01.0)\n"));
  EXPECT_THAT(words, HasSubstr("probe_misses_library 1.0 cannot be used: probe_misses_library: not usable "
                               "here: needs the driver library libzoo_driver.so.1"));
  EXPECT_THAT(words, HasSubstr("  What to do: install zoo-driver-package.\n"));
  EXPECT_THAT(words, HasSubstr("vulkan:0 (Zoo Zero) is not used: the same device as cuda:0, which serves it (QUERN-L-0604)."));
}

TEST(ReportText, APackageOfDebianInARemedyIsTheCommandThere) {
  Machine debian, other;
  write_file(debian.root / "etc/debian_version", "12.1\n");
  const auto command_for = [](const Machine& machine, const char* remedy) {
    Report report;
    ReportEntry entry;
    entry.status = Status::refused;
    entry.code = "QUERN-L-0406";
    entry.remedy = remedy;
    report.entries.push_back(entry);
    add_commands(report, machine.root / "etc");
    return report.entries[0].command;
  };
  const char* loader = "install the Vulkan loader (Debian: libvulkan1) and a driver, or run on another backend";
  EXPECT_EQ(command_for(debian, loader), "sudo apt install libvulkan1");
  EXPECT_THAT(command_for(other, loader), Not(HasSubstr("apt")));
  EXPECT_THAT(command_for(debian, "install a driver (Debian: mesa-vulkan-drivers for AMD, nvidia-driver for NVIDIA)"),
              Not(HasSubstr("apt")));
}

TEST(ReportText, BytesThatAreNoTextHurtNeitherTheJsonNorATerminal) {
  Report report;
  ReportEntry entry;
  entry.status = Status::refused;
  entry.code = "QUERN-L-0402";
  entry.id = "x";
  entry.cause = "bad \xff\xfe and \x1b[31mred";
  entry.printed = std::string("a\0b", 3);
  report.entries.push_back(entry);
  EXPECT_TRUE(nlohmann::json::accept(to_json(report)));
  EXPECT_THAT(to_words(report), Not(HasSubstr("\x1b")));
}

TEST(ReportText, SaysWhenNothingCanBeUsed) {
  EXPECT_THAT(to_words(Report{}), testing::StartsWith("[no] Quern runs no model here: no device can be used.\n"));
}

TEST(ReportText, UuidsAreWrittenAsUsual) {
  std::array<std::uint8_t, 16> uuid{};
  EXPECT_EQ(uuid_text(uuid), "");
  for (std::size_t i = 0; i < 16; ++i) uuid[i] = static_cast<std::uint8_t>(i * 17);
  EXPECT_EQ(uuid_text(uuid), "00112233-4455-6677-8899-aabbccddeeff");
}

}  // namespace
}  // namespace quern::loader
