// Every bad plugin of the zoo: its stage, its code and its words, and that the good one beside it still
// opens.
#include "fixture.hpp"

#include "quern/quern_sanitizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::loader {
namespace {

using testing::HasSubstr;

class Zoo : public testing::TestWithParam<Refused> {};

TEST_P(Zoo, RefusesTheBadOneInWordsAndStillOpensTheGoodOne) {
  const Refused& bad = GetParam();
  if (QUERN_SANITIZER == 2 && std::string(bad.id) == "constructor_exits")
    GTEST_SKIP() << "the thread sanitizer, which ignores what goes on in dlopen, calls an exit out of it a fault, with a status of its own";
  Machine machine;
  machine.add({"good", bad.id});
  Settings settings = machine.settings();
  if (std::string(bad.id).ends_with("_hangs")) settings.probe_limit = std::chrono::milliseconds(1500);
  Loader loader(settings);
  expect_refused_beside_the_good_one(loader, bad);
}

INSTANTIATE_TEST_SUITE_P(
    All, Zoo,
    testing::Values(
        Refused{"no_note", Stage::inspect, "QUERN-L-0107", "has no note of a quern plugin", "remove the file"},
        Refused{"wrong_epoch", Stage::inspect, "QUERN-L-0109", "this runtime speaks epoch 1", "backends-1"},
        Refused{"needs_newer_host", Stage::inspect, "QUERN-L-0111", "needs runtime ABI 1.5 or newer, and this is 1.2",
                "newer quern runtime"},
        Refused{"other_hash", Stage::inspect, "QUERN-L-0112", "hash 0000000000001234", "QUERN_ALLOW_DEV_PLUGINS=1"},
        Refused{"strange_cpu", Stage::inspect, "QUERN-L-0113", "bit 63", "built for this processor"},
        Refused{"missing_library", Stage::load, "QUERN-L-0201", "needs the shared library libzoo_missing.so.3",
                "install the package that has libzoo_missing.so.3"},
        Refused{"undefined_symbol", Stage::load, "QUERN-L-0202", "'zoo_nobody_defines_this'", "newer build of the plugin"},
        Refused{"constructor_traps", Stage::load, "QUERN-L-0207", "signal 4 (Illegal instruction) while it was loaded", "another version"},
        Refused{"constructor_exits", Stage::load, "QUERN-L-0207", "ended its helper process with status 3", "another version"},
        Refused{"constructor_hangs", Stage::load, "QUERN-L-0208", "did not finish while it was loaded within 1500 ms", "driver that hangs"},
        Refused{"no_entry", Stage::negotiate, "QUERN-L-0301", "does not export quern_plugin_query_v1", "author"},
        Refused{"entry_refuses", Stage::negotiate, "QUERN-L-0302", "the zoo wants a younger host", "versions of plugin and runtime"},
        Refused{"entry_throws", Stage::negotiate, "QUERN-L-0303", "C++ exception", "author"},
        Refused{"small_table", Stage::negotiate, "QUERN-L-0304", "64 bytes", "author"},
        Refused{"null_function", Stage::negotiate, "QUERN-L-0305", "'compile' is null", "author"},
        Refused{"other_id", Stage::negotiate, "QUERN-L-0306", "its function table has the name 'somebody_else', and its note 'other_id'",
                "author"},
        Refused{"high_minor", Stage::negotiate, "QUERN-L-0307", "negotiated ABI minor 3", "author"},
        Refused{"foreign_op_set", Stage::negotiate, "QUERN-L-0310", "its op set is 99; expected 1 to 3", "author"},
        Refused{"version_without_data", Stage::negotiate, "QUERN-L-0310", "its version has 5 bytes at a null pointer", "author"},
        Refused{"no_format_table", Stage::negotiate, "QUERN-L-0310", "its format table is 0; expected 1 to 2", "author"},
        Refused{"create_fails", Stage::probe, "QUERN-L-0401", "no room for the zoo", "author"},
        Refused{"probe_fails", Stage::probe, "QUERN-L-0402",
                "driver too old (status 12): the zoo's driver is 1.2 and this plugin needs 3.4", ""},
        Refused{"probe_crashes", Stage::probe, "QUERN-L-0403", "while it was probed", "driver"},
        Refused{"probe_hangs", Stage::probe, "QUERN-L-0404", "did not finish while it was probed within 1500 ms", "driver that hangs"},
        Refused{"probe_throws", Stage::probe, "QUERN-L-0405", "a probe of the zoo throws", "author"},
        Refused{"probe_misses_library", Stage::probe, "QUERN-L-0406", "needs the driver library libzoo_driver.so.1",
                "install zoo-driver-package"},
        Refused{"probe_lies", Stage::probe, "QUERN-L-0407", "4 of 1 devices passed", "author"},
        Refused{"no_queue", Stage::probe, "QUERN-L-0406", "no_queue:0: cannot be driven: it is not synchronous, and makes no queue",
                "author"},
        Refused{"wide_alignment", Stage::probe, "QUERN-L-0406", "multiples of 65536 bytes, and the runtime gives multiples of 4096",
                "author"},
        Refused{"bad_info", Stage::probe, "QUERN-L-0406", "memory alignment 3 is not a power of two", "author"},
        Refused{"entry_crashes", Stage::negotiate, "QUERN-L-0308", "in its entry", "another version"}),
    [](const testing::TestParamInfo<Refused>& animal) { return std::string(animal.param.id); });

TEST(ZooTogether, OneSearchOverTheWholeZooOpensTheGoodOnesAndReportsEveryOther) {
  Machine machine;
  machine.add({"good", "second", "no_note", "wrong_epoch", "other_hash", "missing_library", "undefined_symbol", "constructor_traps",
               "no_entry", "entry_throws", "null_function", "probe_fails", "probe_crashes", "probe_lies"});
  write_file(machine.root / "plugins/libbackend_text.so", "not a library\n");
  write_file(machine.root / "plugins/README", "ignored: not a plugin's name\n");
  Loader loader(machine.settings());
  EXPECT_EQ(labels(loader), (std::vector<std::string>{"good:0", "second:0"}));
  EXPECT_EQ(entry_of(loader.report(), "text").code, "QUERN-L-0102");
  int plugins = 0;
  for (const ReportEntry& e : loader.report().entries) plugins += e.path.ends_with(".so");
  EXPECT_EQ(plugins, 15);
}

TEST(ZooTogether, HelpersRunSideBySide) {
  Machine machine;
  machine.add({"probe_meets", "probe_meets_too"});  // each probe waits for the other
  write_file(machine.root / "meeting/place", "");
  ::setenv("ZOO_MEETING", (machine.root / "meeting").c_str(), 1);
  Loader loader(machine.settings());
  EXPECT_EQ(labels(loader), (std::vector<std::string>{"probe_meets:0", "probe_meets_too:0"}))
      << entry_of(loader.report(), "probe_meets").cause;
  ::unsetenv("ZOO_MEETING");
}

TEST(ZooTogether, AProbeThatIsSlowAndGoesOnIsNoHang) {
  Machine machine;
  machine.add({"probe_is_slow"});
  Settings settings = machine.settings();
  settings.probe_limit = std::chrono::seconds(2);  // it needs 4.6 s at least, and computes for 0.7 of them
  Loader loader(settings);
  EXPECT_EQ(labels(loader), std::vector<std::string>{"probe_is_slow:0"}) << entry_of(loader.report(), "probe_is_slow").cause;
}

TEST(ZooTogether, AProbeThatComputesForEverIsAHang) {
  Machine machine;
  machine.add({"good", "probe_spins"});
  Settings settings = machine.settings();
  settings.probe_limit = std::chrono::seconds(1);
  Loader loader(settings);
  EXPECT_EQ(labels(loader), std::vector<std::string>{"good:0"});
  EXPECT_EQ(entry_of(loader.report(), "probe_spins").code, "QUERN-L-0404");
  EXPECT_THAT(entry_of(loader.report(), "probe_spins").cause, HasSubstr("did not finish while it was probed"));
}

TEST(ZooTogether, APluginThatForksDoesNotHoldTheLoaderUp) {
  Machine machine;
  machine.add({"probe_forks"});
  Loader loader(machine.settings());
  EXPECT_EQ(labels(loader), std::vector<std::string>{"probe_forks:0"})
      << entry_of(loader.report(), "probe_forks").cause;  // a hang, had it waited
}

TEST(ZooTogether, ANewerMinorIsNegotiatedDownAndWorks) {
  Machine machine;
  machine.add({"newer_minor"});
  Loader loader(machine.settings());
  ASSERT_EQ(labels(loader), std::vector<std::string>{"newer_minor:0"});
  EXPECT_EQ(loader.open_best()->plugin()->abi_minor(), QUERN_ABI_MINOR);
}

TEST(ZooTogether, ALaterOpSetOfALaterMinorIsNoFault) {
  Machine machine;
  machine.add({"newer_op_set"});
  Loader loader(machine.settings());
  EXPECT_EQ(labels(loader), std::vector<std::string>{"newer_op_set:0"}) << entry_of(loader.report(), "newer_op_set").cause;
}

TEST(ZooTogether, ATaggedPluginLoadsInAnUntaggedHost) {
  Machine machine;
  machine.add({"tagged"});
  EXPECT_EQ(labels(Loader(machine.settings())), std::vector<std::string>{"tagged:0"});
}

TEST(ZooTogether, AnotherHeaderHashLoadsWhenDevelopmentPluginsAreAllowed) {
  Machine machine;
  machine.add({"other_hash"});
  Settings settings = machine.settings();
  settings.allow_dev_plugins.set(true, "QUERN_ALLOW_DEV_PLUGINS");
  EXPECT_EQ(labels(Loader(settings)), std::vector<std::string>{"other_hash:0"});
}

TEST(ZooTogether, AMissingOptionalLibraryIsALimitAndNotARefusal) {
  Machine machine;
  machine.add({"probe_limited"});
  Loader loader(machine.settings());
  const ReportEntry entry = entry_of(loader.report(), "probe_limited");
  EXPECT_EQ(entry.status, Status::limited);
  ASSERT_EQ(entry.reasons.size(), 1u);
  EXPECT_EQ(entry.reasons[0].missing, "libzoo_fast.so");
  EXPECT_EQ(entry.reasons[0].remedy, "install the package that has libzoo_fast.so");
}

TEST(ZooTogether, WhatAPluginPrintsIsCaughtAndReported) {
  Machine machine;
  machine.add({"probe_prints"});
  testing::internal::CaptureStdout();
  Settings settings = machine.settings();
  settings.backends.set({"probe_prints"}, "QUERN_BACKEND");
  const Report report = Loader(settings).report();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(entry_of(report, "probe_prints").printed, HasSubstr("the zoo prints to stdout"));
  EXPECT_THAT(entry_of(report, "probe_prints").printed, HasSubstr("and to stderr"));
}

TEST(ZooDevices, AReasonThatNamesADeviceRefusesThatOneOnly) {
  Machine machine;
  machine.add({"probe_names_device"});
  Loader loader(machine.settings());
  EXPECT_EQ(labels(loader), (std::vector<std::string>{"probe_names_device:2", "probe_names_device:0"}));  // by name: Two, Zero
  const ReportEntry entry = entry_of(loader.report(), "probe_names_device");
  ASSERT_EQ(entry.devices.size(), 3u);
  EXPECT_EQ(entry.devices[1].code, "QUERN-L-0601");
  EXPECT_THAT(entry.devices[1].reason, HasSubstr("2 + 2 = 5"));
}

TEST(ZooDevices, TheDeviceThatCannotBeOpenedIsTheOneThatFailed) {
  Machine machine;
  machine.add({"one_cannot_open"});
  Loader loader(machine.settings());
  EXPECT_EQ(loader.candidates().size(), 2u);
  EXPECT_THAT(entry_of(loader.report(), "one_cannot_open").devices[1].reason, HasSubstr("the cage is empty"));
}

TEST(ZooDevices, IfNobodyKnowsWhichDeviceFailedNoneIsTrusted) {
  Machine machine;
  machine.add({"good", "probe_hides_device"});
  Loader loader(machine.settings());
  EXPECT_EQ(labels(loader), std::vector<std::string>{"good:0"});
  const ReportEntry entry = entry_of(loader.report(), "probe_hides_device");
  EXPECT_EQ(entry.code, "QUERN-L-0406");
  EXPECT_EQ(entry.devices[0].code, "QUERN-L-0603");
  EXPECT_THAT(entry.cause, HasSubstr("2 of 3 devices passed the probe"));
}

TEST(ZooHelper, WithoutTheHelperACpuPluginIsProbedHereAndSaysSo) {
  Machine machine;
  machine.add({"good"});
  Settings settings = machine.settings();
  settings.probe_program = machine.root / "no-such-helper";
  Loader loader(settings);
  const ReportEntry entry = entry_of(loader.report(), "good");
  EXPECT_EQ(entry.status, Status::limited);
  EXPECT_TRUE(entry.in_process);
  ASSERT_EQ(entry.reasons.size(), 1u);
  EXPECT_THAT(entry.reasons[0].text, HasSubstr("no-such-helper' cannot be started"));
}

TEST(ZooHelper, WithoutTheHelperAGpuPluginIsRefused) {
  Machine machine;
  machine.add({"cuda"});
  Settings settings = machine.settings();
  settings.probe_program = machine.root / "no-such-helper";
  const ReportEntry entry = entry_of(Loader(settings).report(), "cuda");
  EXPECT_EQ(entry.code, "QUERN-L-0209");
  EXPECT_THAT(entry.remedy, HasSubstr("install the helper"));
}

TEST(ZooHelper, ProbingInThisProcessNeedsNoHelper) {
  Machine machine;
  machine.add({"cuda", "entry_throws", "probe_throws", "probe_fails"});
  Settings settings = machine.settings();
  settings.probe_program = machine.root / "no-such-helper";
  settings.probe_in_process.set(true, "api");
  Loader loader(settings);
  EXPECT_EQ(labels(loader), (std::vector<std::string>{"cuda:1", "cuda:0"}));
  EXPECT_TRUE(entry_of(loader.report(), "cuda").in_process);
  EXPECT_EQ(entry_of(loader.report(), "entry_throws").code, "QUERN-L-0303");
  EXPECT_EQ(entry_of(loader.report(), "probe_throws").code, "QUERN-L-0405");
}

TEST(ZooHelper, AProgramThatIsNoHelperIsNoResult) {
  Machine machine;
  machine.add({"cuda"});
  Settings settings = machine.settings();
  settings.probe_program = "/bin/true";
  const ReportEntry entry = entry_of(Loader(settings).report(), "cuda");
  EXPECT_EQ(entry.code, "QUERN-L-0207");
  EXPECT_THAT(entry.cause, HasSubstr("with status 0"));
}

}  // namespace
}  // namespace quern::loader
