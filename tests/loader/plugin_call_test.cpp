// The record of open calls into plugins, and what is kept of a call that failed.
#include "fault_notes.hpp"
#include "fixture.hpp"
#include "quern/loader/plugin_call.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace quern::loader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const CallTarget& target(const std::string& device) { return call_target({.backend = "zoo", .device = device}); }

/// "zoo:0 submit", with "(other)" behind it for a call of another thread.
std::vector<std::string> open_calls() {
  std::vector<std::string> calls;
  OpenCallInfo call;
  for (std::uint64_t i = 0; read_open_call(i, call); ++i)
    calls.push_back(call.target->device + " " + call.name + (call.this_thread ? "" : " (other)"));
  return calls;
}

TEST(OpenCalls, AreReadInnermostFirstUntilTheyReturn) {
  {
    const OpenCall outer(target("zoo:0"), "submit");
    {
      const OpenCall inner(target("zoo:1"), "heap_info");
      EXPECT_THAT(open_calls(), ElementsAre("zoo:1 heap_info", "zoo:0 submit"));
    }
    EXPECT_THAT(open_calls(), ElementsAre("zoo:0 submit"));
  }
  EXPECT_THAT(open_calls(), IsEmpty());
}

TEST(OpenCalls, OfOtherThreadsComeBehindOnesOwn) {
  std::latch open(1), seen(1);
  std::thread other([&] {
    const OpenCall call(target("zoo:1"), "compile");
    open.count_down();
    seen.wait();
  });
  open.wait();
  {
    const OpenCall own(target("zoo:0"), "submit");
    EXPECT_THAT(open_calls(), ElementsAre("zoo:0 submit", "zoo:1 compile (other)"));
  }
  seen.count_down();
  other.join();
}

TEST(OpenCalls, HaveNumbersOfTheirOwn) {
  OpenCallInfo first, second;
  {
    const OpenCall call(target("zoo:0"), "submit");
    ASSERT_TRUE(read_open_call(0, first));
  }
  {
    const OpenCall call(target("zoo:0"), "submit");
    ASSERT_TRUE(read_open_call(0, second));
  }
  EXPECT_NE(first.number, second.number);
}

TEST(OpenCalls, BeyondTheRecordRunWithoutBeingOnIt) {
  std::vector<std::unique_ptr<OpenCall>> calls;
  for (int i = 0; i < 300; ++i) calls.push_back(std::make_unique<OpenCall>(target("zoo:0"), "submit"));
  EXPECT_EQ(open_calls().size(), 256u);
  calls.clear();
  EXPECT_THAT(open_calls(), IsEmpty());
}

TEST(OpenCalls, AForkedChildHasItsOwnThreadsAlone) {
  std::latch open(1), seen(1);
  std::thread other([&] {
    const OpenCall call(target("zoo:1"), "submit");
    open.count_down();
    seen.wait();
  });
  open.wait();
  const OpenCall own(target("zoo:0"), "device_open");
  const pid_t child = ::fork();
  if (child == 0) ::_exit(open_calls() == std::vector<std::string>{"zoo:0 device_open"} ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  seen.count_down();
  other.join();
}

TEST(OpenCalls, AnExceptionIsAStatusAndItsWords) {
  std::string thrown;
  const auto body = []() -> quern_status { throw std::runtime_error("no such luck"); };
  EXPECT_EQ(guarded(target("zoo:0"), "submit", body, thrown), QUERN_INTERNAL);
  EXPECT_EQ(thrown, "no such luck");
  EXPECT_THAT(open_calls(), IsEmpty());
}

struct KeptFaults : testing::Test {
  const CallTarget& plugin() const {
    return call_target({.backend = "zoo", .device = "zoo:0", .path = "/zoo.so", .fault_file = folder / "zoo.fault", .identity = "1:2:3"});
  }
  std::optional<KeptFault> find(const std::string& identity = "1:2:3") { return find_fault(folder / "zoo.fault", identity, problem); }
  Folder folder;
  std::string problem;
};

TEST_F(KeptFaults, HoldForTheFileThatTheyWereOf) {
  ASSERT_TRUE(keep_fault(plugin(), "submit", FaultKind::crashed, SIGSEGV));
  ASSERT_TRUE(find());
  EXPECT_EQ(find()->words("zoo"), "zoo:0 crashed in submit with signal 11 (Segmentation fault)");
  EXPECT_FALSE(find("1:2:4"));
  EXPECT_EQ(problem, "");
}

TEST_F(KeptFaults, AreWordsOfTheirKind) {
  ASSERT_TRUE(keep_fault(plugin(), "compile", FaultKind::exited, 0));
  EXPECT_EQ(find()->words("zoo"), "zoo:0 ended the program in compile");
  EXPECT_TRUE(find()->ended_the_program());
  ASSERT_TRUE(keep_fault(plugin(), "submit", FaultKind::hung, 0));
  EXPECT_EQ(find()->words("zoo"), "zoo:0 did not return from submit");
  EXPECT_FALSE(find()->ended_the_program());
}

TEST_F(KeptFaults, AreForgottenWhenTheSameCallHasReturned) {
  ASSERT_TRUE(keep_fault(plugin(), "submit", FaultKind::crashed, SIGSEGV));
  suspect_call(plugin(), "submit");
  std::string thrown;
  const auto ok = [] { return quern_status{QUERN_OK}; };
  guarded(plugin(), "compile", ok, thrown);
  forget_passed_fault("/zoo.so");
  EXPECT_TRUE(find());
  guarded(plugin(), "submit", ok, thrown);
  forget_passed_fault("/zoo.so");
  EXPECT_FALSE(find());
}

TEST_F(KeptFaults, ADamagedFileIsReportedAndNotBelieved) {
  for (const char* text : {"", "quern-fault 1\n1:2:3\nzoo:0\nsubmit\n1\n11\n", "quern-fault 1\n1:2:3\nzoo:0\nsub\x1bmit\n1\n11\nend\n",
                           "quern-fault 1\n1:2:3\nzoo:0\nsubmit\n9\n11\nend\n"}) {
    write_file(folder / "zoo.fault", text);
    problem.clear();
    EXPECT_FALSE(find());
    EXPECT_THAT(problem, HasSubstr("damaged")) << text;
  }
}

TEST_F(KeptFaults, AreNotWrittenThroughALink) {
  write_file(folder / "other", "mine");
  std::filesystem::create_symlink(folder / "other", folder / "zoo.fault");
  ASSERT_TRUE(keep_fault(plugin(), "submit", FaultKind::crashed, SIGSEGV));
  EXPECT_EQ(read_whole(folder / "other"), "mine");
  EXPECT_TRUE(find());
}

}  // namespace
}  // namespace quern::loader
