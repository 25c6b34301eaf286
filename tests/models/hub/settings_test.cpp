#include "quern/models/hub.hpp"

#include "quern/graph/error.hpp"

#include <gtest/gtest.h>

#include <map>

namespace quern::hub {
namespace {

Settings settings(const std::map<std::string, std::string>& variables) {
  return settings_from_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(HubSettings, FoldersHaveTheOrderOfOtherClients) {
  EXPECT_EQ(settings({{"HOME", "/h"}}).cache, "/h/.cache/huggingface/hub");
  EXPECT_EQ(settings({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}).cache, "/x/huggingface/hub");
  EXPECT_EQ(settings({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "~/f"}}).cache, "/h/f/hub");
  EXPECT_EQ(settings({{"HOME", "/h"}, {"HF_HOME", "/f"}, {"HUGGINGFACE_HUB_CACHE", "/old"}}).cache, "/old");
  EXPECT_EQ(settings({{"HF_HUB_CACHE", "/c"}, {"HUGGINGFACE_HUB_CACHE", "/old"}}).cache, "/c");
  EXPECT_EQ(settings({{"HOME", "/h"}}).url_cache, "/h/.cache/quern/models");
  EXPECT_EQ(settings({{"HOME", "/h"}, {"QUERN_CACHE_DIR", "/q"}}).url_cache, "/q/models");
  EXPECT_EQ(settings({}).cache, "");
}

TEST(HubSettings, OfflineTokenAndEndpoint) {
  EXPECT_FALSE(settings({{"HF_HUB_OFFLINE", "0"}}).offline);
  EXPECT_TRUE(settings({{"HF_HUB_OFFLINE", "YES"}}).offline);
  EXPECT_TRUE(settings({{"TRANSFORMERS_OFFLINE", "1"}}).offline);
  EXPECT_EQ(settings({{"HF_TOKEN", " t \n"}}).token, "t");
  EXPECT_EQ(settings({{"HF_ENDPOINT", "https://mirror.example//"}}).endpoint, "https://mirror.example");
  EXPECT_EQ(settings({}).endpoint, "https://huggingface.co");
}

TEST(HubSettings, RefusesNumbersThatCannotBeReadNamingTheVariable) {
  EXPECT_EQ(settings({{"QUERN_HUB_TRIES", "3"}, {"HF_HUB_DOWNLOAD_TIMEOUT", "7"}}).tries, 3u);
  for (const char* name : {"QUERN_HUB_TRIES", "HF_HUB_DOWNLOAD_TIMEOUT"}) {
    for (const char* value : {"0", "-1", "x", "1e3", "99999999999"}) {
      try {
        settings({{name, value}});
        FAIL() << name << "=" << value;
      } catch (const Error& error) { EXPECT_NE(std::string(error.what()).find(name), std::string::npos); }
    }
  }
}

TEST(HubSettings, ReadsTheBoundsOfATransfer) {
  EXPECT_EQ(settings({}).most_bytes, std::uint64_t{512} << 30);
  EXPECT_EQ(settings({{"QUERN_HUB_LIMIT", "3M"}}).most_bytes, std::uint64_t{3} << 20);
  EXPECT_EQ(settings({{"QUERN_HUB_LIMIT", "77"}}).most_bytes, 77u);
  EXPECT_EQ(settings({{"QUERN_HUB_LIMIT", "0"}}).most_bytes, UINT64_MAX);
  EXPECT_EQ(settings({{"QUERN_HUB_RATE", "5000"}}).least_rate, 5000u);
  for (const char* value : {"-1", "x", "3X", "3MM", "M", "99999999999999999999", "999999999999T"})
    EXPECT_THROW(settings({{"QUERN_HUB_LIMIT", value}}), Error) << value;
  for (const char* value : {"0", "x", "99999999999"}) EXPECT_THROW(settings({{"QUERN_HUB_RATE", value}}), Error) << value;
}

TEST(HubSettings, ATokenWithControlCharactersIsRefusedAndNotShown) {
  try {
    settings({{"HF_TOKEN", "secret\x1b[2J"}});
    FAIL();
  } catch (const Error& error) { EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos); }
}

TEST(HubSettings, ATokenOfTwoLinesIsRefused) { EXPECT_THROW(settings({{"HF_TOKEN", "a\nHost: evil"}}), Error); }

}  // namespace
}  // namespace quern::hub
