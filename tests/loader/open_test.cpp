// S4: plugins enter this process when a device is opened, one handle a loader, and never leave it.
#include "fixture.hpp"
#include "quern/graph/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

extern "C" quern_status zoo_registered_query(const quern_query* query, struct quern_plugin_api* out, quern_error* error);

namespace quern::loader {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;

bool is_mapped(const std::string& path) { return read_whole("/proc/self/maps").find(path) != std::string::npos; }

TEST(Open, NothingOfAPluginIsInThisProcessBeforeItIsOpened) {
  Machine m;
  m.add({"good"});
  {
    Loader loader(m.settings());
    EXPECT_FALSE(is_mapped(m.plugin("good")));
    const std::shared_ptr<Device> device = loader.open_best();
    EXPECT_TRUE(is_mapped(m.plugin("good")));
    EXPECT_NE(device->handle(), nullptr);
    EXPECT_EQ(device->info().name, "Zoo Zero");
    EXPECT_EQ(device->plugin()->id(), "good");
    EXPECT_EQ(device->plugin()->allocations().live_bytes, 16u);
  }
  EXPECT_TRUE(is_mapped(m.plugin("good"))) << "libraries are never unloaded";
}

TEST(Open, DevicesOfOnePluginShareItsHandleAndOutliveTheLoader) {
  Machine m;
  m.add({"cuda"});
  auto loader = std::make_unique<Loader>(m.settings());
  const std::shared_ptr<Device> a = loader->open(loader->candidates()[0]);
  const std::shared_ptr<Device> b = loader->open(loader->candidates()[1]);
  EXPECT_EQ(a->plugin(), b->plugin());
  loader.reset();
  EXPECT_NE(a->handle(), b->handle());
}

TEST(Open, TwoLoadersHaveAHandleEach) {
  Machine m;
  m.add({"good"});
  Loader one(m.settings()), two(m.settings());
  const auto a = one.open_best(), b = two.open_best();
  EXPECT_NE(a->plugin()->handle(), b->plugin()->handle());
}

TEST(Open, OtherOptionsHaveAHandleOfTheirOwnAndNeedNoHelper) {
  Machine m;
  m.add({"cuda"});
  Settings s = m.settings();
  const std::filesystem::path helper = m.root / "quern-probe";
  std::filesystem::copy_file(QUERN_PROBE_PROGRAM, helper);
  s.probe_program = helper;
  Loader loader(s);
  const Candidate candidate = loader.candidates()[0];
  const std::shared_ptr<Device> usual = loader.open(candidate);
  std::filesystem::remove(helper);
  const std::shared_ptr<Device> other = loader.open(candidate, {{"word", "heard"}}), third = loader.open(candidate, {{"word", "too"}});
  EXPECT_NE(other->plugin()->handle(), usual->plugin()->handle());
  EXPECT_NE(other->plugin()->handle(), third->plugin()->handle());
  EXPECT_EQ(other->info(), usual->info());
  EXPECT_EQ(loader.open(candidate)->plugin(), usual->plugin());
  EXPECT_THAT(m.log_lines(), IsSupersetOf({"2 cuda.word: heard", "2 cuda.word: too"}));
}

TEST(Open, APluginThatRefusesOtherOptionsIsAnErrorAndPartOfTheReport) {
  Machine m;
  m.add({"good"});
  Loader loader(m.settings());
  const Candidate candidate = loader.candidates()[0];
  EXPECT_NE(loader.open(candidate), nullptr);
  try {
    loader.open(candidate, {{"word", "no"}});
    ADD_FAILURE() << "opened";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), QUERN_BACKEND_UNAVAILABLE);
    EXPECT_THAT(e.what(), HasSubstr("good:0 cannot be opened: "));
    EXPECT_THAT(e.what(), HasSubstr("the word is no"));
  }
  EXPECT_EQ(entry_with(loader.report(), "QUERN-L-0401").stage, Stage::open);
}

TEST(Open, ThePluginsLogArrivesUnderItsNameAndDestroyIsCalled) {
  Machine m;
  m.add({"good"});
  { Loader(m.settings()).open_best(); }
  EXPECT_THAT(m.log_lines(), Contains("2 good.life: created"));
  EXPECT_THAT(m.log_lines(), Contains("2 good.life: destroyed"));
}

TEST(Open, ADeviceThatDoesNotOpenIsAnErrorAndPartOfTheReport) {
  Machine m;
  m.add({"open_fails", "cpu"});
  Settings s = m.settings();
  s.backends.set({"open_fails"}, "QUERN_BACKEND");
  Loader loader(s);
  try {
    loader.open_best();
    ADD_FAILURE() << "opened";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), QUERN_BACKEND_UNAVAILABLE);
    EXPECT_THAT(e.what(), HasSubstr("open_fails:0 cannot be opened: out of device memory (status 4): no memory for a context"));
  }
  const ReportEntry entry = entry_with(loader.report(), "QUERN-L-0501");
  EXPECT_EQ(entry.stage, Stage::open);
  EXPECT_THAT(m.log_lines(), Contains(HasSubstr("3 loader: open_fails:0 cannot be opened")));
}

TEST(Open, WithoutADemandTheNextBestIsOpenedWithAWarning) {
  Machine m;
  m.add({"open_fails", "cpu"});
  Loader loader(m.settings());
  EXPECT_EQ(loader.open_best()->label(), "cpu:0");
  EXPECT_EQ(entry_with(loader.report(), "QUERN-L-0501").id, "open_fails");
}

TEST(Open, AFileThatWasReplacedSinceItsProbeIsRefused) {
  Machine m;
  m.add({"good"});
  Loader loader(m.settings());
  std::filesystem::remove(m.plugin("good"));
  write_file(m.plugin("good"), read_whole(std::string(QUERN_ZOO) + "/libbackend_second.so"));
  try {
    loader.open_best();
    ADD_FAILURE() << "opened";
  } catch (const Error& e) { EXPECT_THAT(e.what(), HasSubstr("the file was replaced after it was probed")); }
}

TEST(Open, OnlyItsOwnCandidatesAreOpened) {
  Machine m;
  m.add({"good"});
  Loader loader(m.settings());
  Candidate stranger;
  stranger.label = "evil:0";
  stranger.path = "/tmp/libbackend_evil.so";
  try {
    loader.open(stranger);
    ADD_FAILURE() << "opened";
  } catch (const Error& e) { EXPECT_EQ(e.code(), QUERN_INVALID_ARGUMENT); }
}

TEST(Open, APluginOfTheProgramNeedsNoFile) {
  Machine m;
  Settings s = m.settings();
  s.registered.push_back(&zoo_registered_query);
  s.registered.push_back(nullptr);
  Loader loader(s);
  EXPECT_THAT(labels(loader), ElementsAre("linked_in:0"));
  EXPECT_EQ(loader.candidates()[0].path, "registered:linked_in");
  EXPECT_EQ(loader.open_best()->info().name, "Zoo Zero");
  EXPECT_EQ(entry_with(loader.report(), "QUERN-L-0301").path, "registered:1");
}

TEST(Open, AfterForkTheChildClosesNoDevice) {
  Machine m;
  m.add({"good"});
  Loader loader(m.settings());
  std::shared_ptr<Device> device = loader.open_best();
  const pid_t child = ::fork();
  if (child == 0) {
    device.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_NE(device->handle(), nullptr);
}

TEST(Open, AThousandTimesKeepsNoMemory) {
  Machine m;
  m.add({"good"});
  Loader loader(m.settings());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(loader.open_best()->plugin()->allocations().allocations, 1u);
}

}  // namespace
}  // namespace quern::loader
