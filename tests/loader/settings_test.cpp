// The environment becomes settings that say where each came from.
#include "quern/graph/error.hpp"
#include "quern/loader/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace quern::loader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Environment fake(std::map<std::string, std::string> variables, bool elevated = false) {
  auto kept = std::make_shared<std::map<std::string, std::string>>(std::move(variables));
  const auto get = [kept](const char* name) -> const char* {
    const auto found = kept->find(name);
    return found == kept->end() ? nullptr : found->second.c_str();
  };
  return {get, [get, elevated](const char* name) -> const char* { return elevated ? nullptr : get(name); }};
}

std::string refusal(std::map<std::string, std::string> variables) {
  try {
    settings_from_environment(fake(std::move(variables)));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), QUERN_INVALID_ARGUMENT);
    return e.what();
  }
  return "accepted";
}

TEST(Settings, AnEmptyEnvironmentGivesDefaultsThatSaySo) {
  const Settings s = settings_from_environment(fake({}));
  EXPECT_FALSE(s.backends.is_set() || s.disabled.is_set() || s.device.is_set() || s.backend_path.is_set() || s.force_cpu.value);
  EXPECT_EQ(s.backends.source, "default");
  EXPECT_EQ(s.probe_limit.count(), 5000);
}

TEST(Settings, EachVariableIsReadAndNamesItself) {
  const Settings s = settings_from_environment(fake({{"QUERN_BACKEND", "cuda, cpu,cuda"},
                                                     {"QUERN_BACKEND_DISABLE", "vulkan*"},
                                                     {"QUERN_DEVICE", "cuda:0"},
                                                     {"QUERN_BACKEND_PATH", "/a:/b"},
                                                     {"QUERN_BACKEND_EXTRA_PATH", "/c"},
                                                     {"QUERN_ALLOW_DEV_PLUGINS", "1"},
                                                     {"QUERN_CACHE_DIR", "/cache"},
                                                     {"QUERN_THREADS", "3"},
                                                     {"QUERN_FORCE_KERNEL", "cpu:avx2,cuda:plain"},
                                                     {"QUERN_DETERMINISTIC", "yes"},
                                                     {"CUDA_VISIBLE_DEVICES", ""}}));
  EXPECT_THAT(s.backends.value, ElementsAre("cuda", "cpu"));
  EXPECT_EQ(s.backends.source, "QUERN_BACKEND");
  EXPECT_THAT(s.disabled.value, ElementsAre("vulkan*"));
  EXPECT_EQ(s.device.value, "cuda:0");
  EXPECT_THAT(s.backend_path.value, ElementsAre("/a", "/b"));
  EXPECT_THAT(s.extra_path.value, ElementsAre("/c"));
  EXPECT_TRUE(s.allow_dev_plugins.value);
  EXPECT_EQ(s.cache_directory.value, "/cache");
  EXPECT_EQ(s.threads.value, 3u);
  EXPECT_EQ(s.force_kernel.value.at("cpu"), "avx2");
  EXPECT_TRUE(s.deterministic.value);
  EXPECT_TRUE(s.cuda_visible_devices.is_set()) << "set and empty hides every card";
}

TEST(Settings, EitherForceCpuVariableCounts) {
  for (const char* name : {"CUDA_FORCE_CPU", "AXOLOTL_FORCE_CPU"}) {
    EXPECT_TRUE(settings_from_environment(fake({{name, "1"}})).force_cpu.value);
    EXPECT_EQ(settings_from_environment(fake({{name, "1"}})).force_cpu.source, name);
    EXPECT_FALSE(settings_from_environment(fake({{name, "0"}})).force_cpu.value);
  }
}

TEST(Settings, InASetuidProgramPathsAreIgnoredWithAWordAndFiltersStay) {
  const Settings s = settings_from_environment(fake({{"QUERN_BACKEND_PATH", "/tmp/evil"},
                                                     {"QUERN_BACKEND_EXTRA_PATH", "/tmp/evil"},
                                                     {"QUERN_CACHE_DIR", "/tmp/evil"},
                                                     {"HOME", "/home/u"},
                                                     {"QUERN_BACKEND", "cpu"}},
                                                    /*elevated=*/true));
  EXPECT_FALSE(s.backend_path.is_set() || s.extra_path.is_set());
  EXPECT_EQ(s.cache_directory.value, "");
  EXPECT_THAT(s.backends.value, ElementsAre("cpu"));
  ASSERT_EQ(s.ignored.size(), 3u);
  EXPECT_THAT(s.ignored[0], HasSubstr("QUERN_BACKEND_PATH is ignored because this program runs with more rights"));
}

TEST(Settings, TheCacheFollowsXdgThenHomeAndAnEmptyVariableTurnsItOff) {
  EXPECT_EQ(settings_from_environment(fake({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}})).cache_directory.value, "/x/quern");
  EXPECT_EQ(settings_from_environment(fake({{"XDG_CACHE_HOME", "relative"}, {"HOME", "/h"}})).cache_directory.value, "/h/.cache/quern");
  EXPECT_EQ(settings_from_environment(fake({{"QUERN_CACHE_DIR", ""}, {"HOME", "/h"}})).cache_directory.value, "");
}

TEST(Settings, ABadValueIsAnErrorThatNamesTheVariable) {
  EXPECT_THAT(refusal({{"QUERN_BACKEND", "CUDA"}}), HasSubstr("QUERN_BACKEND names 'CUDA'"));
  EXPECT_THAT(refusal({{"QUERN_BACKEND", "../x"}}), HasSubstr("QUERN_BACKEND names '../x'"));
  EXPECT_THAT(refusal({{"QUERN_THREADS", "0"}}), HasSubstr("QUERN_THREADS is '0'"));
  EXPECT_THAT(refusal({{"QUERN_THREADS", "2x"}}), HasSubstr("QUERN_THREADS is '2x'"));
  EXPECT_THAT(refusal({{"QUERN_FORCE_KERNEL", "avx2"}}), HasSubstr("as in 'cpu:avx2'"));
  EXPECT_THAT(refusal({{"QUERN_ALLOW_DEV_PLUGINS", "perhaps"}}), HasSubstr("it takes 1 or 0"));
  EXPECT_THAT(refusal({{"QUERN_CACHE_DIR", "here"}}), HasSubstr("absolute path"));
}

}  // namespace
}  // namespace quern::loader
