#include "model_name.hpp"

#include "quern/graph/error.hpp"

#include <gtest/gtest.h>

namespace quern::hub {
namespace {

constexpr const char* endpoint = "https://hub.example";

ModelName parse(const std::string& text) { return parse_model_name(text, endpoint); }

TEST(ModelName, HasRepositoryRevisionAndSelector) {
  const ModelName plain = parse("owner/name");
  EXPECT_EQ(plain.repository, "owner/name");
  EXPECT_TRUE(plain.revision.empty() && plain.selector.empty() && plain.url.empty());
  const ModelName whole = parse("o-w_n.er/na.me@refs/pr/1:sub/file-Q4_0.gguf");
  EXPECT_EQ(whole.repository, "o-w_n.er/na.me");
  EXPECT_EQ(whole.revision, "refs/pr/1");
  EXPECT_EQ(whole.selector, "sub/file-Q4_0.gguf");
}

TEST(ModelName, AUrlOfTheEndpointIsItsRepository) {
  for (const char* verb : {"resolve", "blob"}) {
    const ModelName name = parse(concat(endpoint, "/owner/name/", verb, "/v1.0/sub/a.gguf?download=true"));
    EXPECT_EQ(name.repository, "owner/name");
    EXPECT_EQ(name.revision, "v1.0");
    EXPECT_EQ(name.selector, "sub/a.gguf");
    EXPECT_TRUE(name.url.empty());
  }
  EXPECT_EQ(parse(concat(endpoint, "/owner/name")).repository, "owner/name");
  EXPECT_EQ(parse(concat(endpoint, "/owner/name/tree/v2")).revision, "v2");
}

TEST(ModelName, WhatAWebPageOfTheHubShowsIsAName) {
  for (const std::string front : {"hf.co/", "huggingface.co/", "https://hf.co/", "https://huggingface.co/", "https://hub.example/"}) {
    EXPECT_EQ(parse(front + "owner/name").repository, "owner/name") << front;
    EXPECT_EQ(parse(front + "owner/name/").repository, "owner/name") << front;
    EXPECT_EQ(parse(front + "owner/name:Q4_K_M").selector, "Q4_K_M") << front;
    EXPECT_EQ(parse(front + "owner/name@v1:Q8_0").revision, "v1") << front;
    EXPECT_TRUE(parse(front + "owner/name").url.empty()) << front;
    EXPECT_EQ(parse(front + "owner/name").text, front + "owner/name");
  }
  EXPECT_EQ(parse("hf.co/owner/name/resolve/main/a.gguf").selector, "a.gguf");
  EXPECT_EQ(parse_model_name("https://hf.co/owner/name/blob/main/a.gguf", "https://huggingface.co").selector, "a.gguf");
  EXPECT_EQ(parse("https://huggingface.co/owner/name/resolve/main/a.gguf").url, "https://huggingface.co/owner/name/resolve/main/a.gguf");
}

TEST(ModelName, AnyOtherUrlStaysAUrl) {
  for (const std::string url : {"https://other.example/owner/name/resolve/main/a.gguf", "https://hub.example/files/a.gguf",
                                "http://hub.example/owner/name", "https://hub.example/a/b/resolve/main/../../x.gguf"}) {
    EXPECT_EQ(parse(url).url, url);
    EXPECT_TRUE(parse(url).repository.empty());
  }
}

TEST(ModelName, RefusesWhatCouldLeaveTheCache) {
  for (const std::string bad : {"", "name", "/a/b", "a/b/c", "../b", "a/..", "a/b@", "a/b:", "a/b@../x", "a/b:../x", "a/b:/x", "a--b/c",
                                "a/b--c", "-a/b", "a/b.", "a b/c", "a/b@x y", "a/b:x\\y", "a/b:x\ny"}) {
    EXPECT_THROW(parse(bad), Error) << bad;
  }
  EXPECT_THROW(parse("a/" + std::string(97, 'b')), Error);
}

TEST(SafePath, StaysBelowItsFolder) {
  for (const char* good : {"a", "a/b.gguf", "..a/b..", ".hidden", "\u00fc/\u4e2d\u6587.gguf"}) EXPECT_TRUE(is_safe_path(good)) << good;
  for (const char* bad : {"", "/a", "a/", "a//b", "./a", "a/../b", "..", "a\\b", "a\tb", "a\x1b[2J", "a\u009b2J", "a\x9b", "a\u202e",
                          "a\u2028", "a\x7f", "a\xed\xa0\x80"})
    EXPECT_FALSE(is_safe_path(bad)) << bad;
  EXPECT_FALSE(is_safe_path(std::string(256, 'a')));
}

}  // namespace
}  // namespace quern::hub
