// Files of a plugin's name that are no plugin for this machine: stage, code and words, through the whole
// loader, and that the good one beside them still opens.
#include "fixture.hpp"

#include "inspect.hpp"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::loader {
namespace {

using testing::HasSubstr;

using Bytes = std::string;

template <typename T>
Bytes patched(const Bytes& bytes, std::size_t at, T value) {
  const Bytes field(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes.substr(0, at) + field + bytes.substr(at + sizeof value);
}

struct BadFile {
  const char* id;
  Bytes (*damage)(const Bytes& good);
  const char* code;
  const char* cause;   // a part of it
  const char* remedy;  // a part of it
};

void PrintTo(const BadFile& file, std::ostream* out) { *out << file.id; }

class ZooFiles : public testing::TestWithParam<BadFile> {};

TEST_P(ZooFiles, AreRefusedInWordsAtInspectionAndTheGoodOneStillOpens) {
  const BadFile& bad = GetParam();
  Machine machine;
  machine.add({"good"});
  write_file(machine.plugin(bad.id), bad.damage(read_whole(machine.plugin("good"))));
  Loader loader(machine.settings());
  EXPECT_EQ(entry_of(loader.report(), bad.id).path, machine.plugin(bad.id));
  expect_refused_beside_the_good_one(loader, {bad.id, Stage::inspect, bad.code, bad.cause, bad.remedy});
}

INSTANTIATE_TEST_SUITE_P(
    All, ZooFiles,
    testing::Values(
        BadFile{"text", [](const Bytes&) { return Bytes("this is not a library\n"); }, "QUERN-L-0102", "not a shared library", ""},
        BadFile{"empty", [](const Bytes&) { return Bytes(); }, "QUERN-L-0102", "not a shared library", ""},
        BadFile{"truncated", [](const Bytes& good) { return good.substr(0, 5000); }, "QUERN-L-0103", "libbackend_truncated.so", ""},
        BadFile{"narrow", [](const Bytes& good) { return patched<std::uint8_t>(good, EI_CLASS, ELFCLASS32); }, "QUERN-L-0104", "32-bit",
                ""},
        BadFile{"other_machine",
                [](const Bytes& good) {
                  const std::uint16_t other = own_machine() == EM_AARCH64 ? EM_X86_64 : EM_AARCH64;
                  return patched(good, offsetof(Elf64_Ehdr, e_machine), other);
                },
                "QUERN-L-0105", "built for", ""},
        BadFile{"object", [](const Bytes& good) { return patched<std::uint16_t>(good, offsetof(Elf64_Ehdr, e_type), ET_REL); },
                "QUERN-L-0106", "libbackend_object.so", ""}),
    [](const testing::TestParamInfo<BadFile>& file) { return std::string(file.param.id); });

TEST(ZooTwins, OfTwoPluginsWithOneIdInADirectoryTheFirstNameWins) {
  Machine machine;
  machine.add({"good", "second"});
  write_file(machine.plugin("a_copy"), read_whole(machine.plugin("good")));
  Loader loader(machine.settings());
  const ReportEntry shadowed = entry_with(loader.report(), "QUERN-L-0007");
  EXPECT_EQ(shadowed.path, machine.plugin("good")) << to_words(loader.report());
  EXPECT_EQ(shadowed.status, Status::skipped);
  EXPECT_STREQ(stage_name(shadowed.stage), stage_name(Stage::search));
  EXPECT_THAT(shadowed.cause, HasSubstr("'good' was found earlier, in " + machine.plugin("a_copy")));
  EXPECT_EQ(labels(loader), (std::vector<std::string>{"good:0", "second:0"}));
  EXPECT_EQ(loader.open_best()->label(), "good:0");
}

}  // namespace
}  // namespace quern::loader
