#include "config.hpp"

#include "environment.hpp"
#include "failure.hpp"
#include "settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace quern::cli {
namespace {

TEST(Config, ReadsKeysBlankLinesAndComments) {
  const Config config = parse_config("# mine\n\n  backend =  cuda,cpu \r\ncache-dir=/a = b\n", "f");
  ASSERT_EQ(config.size(), 2u);
  EXPECT_EQ(config.at("backend").value, "cuda,cpu");
  EXPECT_EQ(config.at("backend").origin, "f:3");
  EXPECT_EQ(config.at("cache_dir").value, "/a = b");
}

TEST(Config, RefusesABadLineWithItsNumber) {
  const auto refusal = [](const char* text) -> std::string {
    try {
      parse_config(text, "quern.conf");
    } catch (const Failure& failure) { return failure.what(); }
    return "";
  };
  EXPECT_THAT(refusal("threads = 2\nnonsense\n"), testing::HasSubstr("quern.conf:2"));
  EXPECT_THAT(refusal("bakcend = cpu\n"), testing::HasSubstr("'bakcend'"));
  EXPECT_THAT(refusal("bakcend = cpu\n"), testing::HasSubstr("backend, backend_disable"));
  EXPECT_THAT(refusal("bakcend = cpu\n"), testing::HasSubstr("did you mean backend?"));
  EXPECT_THAT(refusal("temprature = 0\n"), testing::HasSubstr("did you mean temperature?"));
  EXPECT_THAT(refusal("[m]\nthreads = 2\n"), testing::HasSubstr("above the first [MODEL]"));
  EXPECT_THAT(refusal("[m\ntop_k = 2\n"), testing::HasSubstr("[MODEL]"));
  EXPECT_THAT(refusal("[m]\ntop_k = 2\n[m]\ntop_k = 3\n"), testing::HasSubstr("given before at quern.conf:2"));
  EXPECT_THAT(refusal("threads = 2\n\nthreads = 3\n"), testing::HasSubstr("quern.conf:1"));
}

TEST(Config, LooksInTheUsersFolderFirst) {
  EXPECT_EQ(config_paths(environment({{"XDG_CONFIG_HOME", "/x"}, {"HOME", "/h"}})),
            (std::vector<std::string>{"/x/quern/quern.conf", "/etc/quern/quern.conf"}));
  EXPECT_EQ(config_paths(environment({{"HOME", "/h"}})),
            (std::vector<std::string>{"/h/.config/quern/quern.conf", "/etc/quern/quern.conf"}));
  EXPECT_EQ(config_paths(environment({{"XDG_CONFIG_HOME", "relative"}, {"HOME", "/h"}})).front(), "/h/.config/quern/quern.conf");
  EXPECT_EQ(config_paths(environment({})), (std::vector<std::string>{"/etc/quern/quern.conf"}));
}

TEST(Config, TheUsersFileWinsKeyByKeyOverTheSystems) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "quern-config-test";
  std::filesystem::create_directories(folder);
  const std::string mine = folder / "mine.conf", system = folder / "system.conf";
  std::ofstream(mine) << "threads = 3\n";
  std::ofstream(system) << "threads = 8\nfallback = strict\n";
  const Config config = read_config({mine, (folder / "absent.conf").string(), system});
  EXPECT_EQ(config.at("threads").value, "3");
  EXPECT_EQ(config.at("fallback").value, "strict");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace quern::cli
