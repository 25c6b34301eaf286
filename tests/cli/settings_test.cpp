#include "settings.hpp"

#include "environment.hpp"
#include "failure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace quern::cli {
namespace {

Settings resolve(const FlagValues& flags, const Variables& variables = {}, const std::string& file = "") {
  return resolve_settings(flags, environment(variables), parse_config(file, "quern.conf"));
}

std::string refusal(const FlagValues& flags, const Variables& variables = {}, const std::string& file = "") {
  try {
    resolve(flags, variables, file);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), exit_usage);
    return failure.what();
  }
  return "";
}

TEST(Settings, AFlagIsStrongerThanTheFile) {
  EXPECT_EQ(resolve({{"backend", "cuda"}}, {}, "backend = cpu\n").backend, "cuda");
  EXPECT_EQ(resolve({}, {}, "backend = cpu\n").backend, "cpu");
}

TEST(Settings, TheEnvironmentIsStrongerThanTheFileAndLeftToTheLibrary) {
  const Settings settings = resolve({}, {{"QUERN_BACKEND", "cuda"}, {"QUERN_THREADS", "7"}}, "backend = cpu\nthreads = 2\n");
  EXPECT_EQ(settings.options().backend, nullptr);  // null: the library reads QUERN_BACKEND itself
  EXPECT_EQ(settings.options().threads, 0u);
}

TEST(Settings, AFlagIsStrongerThanTheEnvironment) {
  const Settings settings = resolve({{"device", "cpu:0"}}, {{"QUERN_DEVICE", "cuda:0"}});
  EXPECT_STREQ(settings.options().device, "cpu:0");
}

TEST(Settings, NothingGivenLeavesEveryChoiceToTheLibrary) {
  const Settings settings;
  const quern_runtime_options options = settings.options();
  EXPECT_EQ(options.struct_size, sizeof(quern_runtime_options));
  EXPECT_EQ(options.backend, nullptr);
  EXPECT_EQ(options.memory, nullptr);
  EXPECT_EQ(options.threads, 0u);
  EXPECT_EQ(options.deterministic, std::uint32_t{QUERN_DETERMINISTIC_DEFAULT});
  EXPECT_EQ(options.ignore_environment, 0u);
  EXPECT_EQ(options.log_level, std::uint32_t{QUERN_LEVEL_WARN});
}

TEST(Settings, EveryTextSettingReachesTheOptions) {
  const Settings settings = resolve({{"backend", "a"},
                                     {"backend_disable", "b"},
                                     {"device", "c"},
                                     {"backend_path", "d"},
                                     {"backend_extra_path", "e"},
                                     {"memory", "cpu=1G"},
                                     {"fallback", "strict"},
                                     {"force_kernel", "f"},
                                     {"cache_dir", "g"},
                                     {"weights_cache", "verify"},
                                     {"weights_cache_limit", "8G"},
                                     {"threads", "3"},
                                     {"deterministic", "1"},
                                     {"allow_dev_plugins", "1"},
                                     {"log", "off"}});
  const quern_runtime_options options = settings.options();
  EXPECT_STREQ(options.backend, "a");
  EXPECT_STREQ(options.backend_disable, "b");
  EXPECT_STREQ(options.device, "c");
  EXPECT_STREQ(options.backend_path, "d");
  EXPECT_STREQ(options.backend_extra_path, "e");
  EXPECT_STREQ(options.memory, "cpu=1G");
  EXPECT_STREQ(options.fallback, "strict");
  EXPECT_STREQ(options.force_kernel, "f");
  EXPECT_STREQ(options.cache_dir, "g");
  EXPECT_STREQ(options.weights_cache, "verify");
  EXPECT_STREQ(options.weights_cache_limit, "8G");
  EXPECT_EQ(options.threads, 3u);
  EXPECT_EQ(options.deterministic, std::uint32_t{QUERN_DETERMINISTIC_ON});
  EXPECT_EQ(options.allow_dev_plugins, 1u);
  EXPECT_EQ(options.log_level, std::uint32_t{QUERN_LEVEL_OFF});
}

TEST(Settings, TheFileCanSwitchDeterminismOff) {
  EXPECT_EQ(resolve({}, {}, "deterministic = off\n").deterministic, std::uint32_t{QUERN_DETERMINISTIC_OFF});
}

TEST(Settings, TheLogLevelIsReadFromTheEnvironmentToo) {
  EXPECT_EQ(resolve({}, {{"QUERN_LOG", "trace"}}).log_level, std::uint32_t{QUERN_LEVEL_TRACE});
  EXPECT_THAT(refusal({}, {{"QUERN_LOG", "loud"}}), testing::HasSubstr("QUERN_LOG: 'loud'"));
}

TEST(Settings, RefusesAValueWithItsOrigin) {
  EXPECT_THAT(refusal({{"threads", "0"}}), testing::HasSubstr("--threads: '0'"));
  EXPECT_THAT(refusal({{"threads", "two"}}), testing::HasSubstr("--threads: 'two'"));
  EXPECT_THAT(refusal({}, {}, "fallback = maybe\n"), testing::HasSubstr("quern.conf:1: fallback: 'maybe'"));
  EXPECT_THAT(refusal({}, {}, "deterministic = 2\n"), testing::HasSubstr("quern.conf:1"));
  EXPECT_THAT(refusal({{"backend", ""}}), testing::HasSubstr("--backend"));
  EXPECT_THAT(refusal({{"weights_cache", "maybe"}}), testing::HasSubstr("--weights-cache: 'maybe'"));
  EXPECT_THAT(refusal({{"weights_cache_limit", "much"}}), testing::HasSubstr("--weights-cache-limit: 'much'"));
  EXPECT_THAT(refusal({}, {}, "backend =\n"), testing::HasSubstr("quern.conf:1: backend"));
}

TEST(Settings, RefusesAMemoryListThatItCannotRead) {
  EXPECT_EQ(resolve({{"memory", "cuda:0=8G,cpu=512M"}}).memory, "cuda:0=8G,cpu=512M");
  for (const char* wrong : {"8G", "cuda:0=", "=8G", "cuda:0=8Q", "cuda:0=8G,", "cuda:0=-1", "cuda:0=8G;cpu=1G"})
    EXPECT_THAT(refusal({{"memory", wrong}}), testing::HasSubstr("--memory")) << wrong;
}

TEST(Settings, EveryRowHasItsOwnKeyVariableAndFlag) {
  std::set<std::string> keys, variables, flags;
  for (const Setting& setting : all_settings()) {
    EXPECT_TRUE(keys.insert(setting.key).second) << setting.key;
    EXPECT_TRUE(variables.insert(setting.variable).second) << setting.variable;
    EXPECT_TRUE(flags.insert(setting.flag).second) << setting.flag;
    EXPECT_EQ(find_setting(setting.key), &setting);
  }
  EXPECT_EQ(find_setting("colour"), nullptr);
}

}  // namespace
}  // namespace quern::cli
