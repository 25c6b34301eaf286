#include "quern/base/nearest.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quern {
namespace {

const std::vector<std::string> flags{"--temperature", "--top-k", "--top-p", "--max-tokens", "--json", "-n"};

TEST(Nearest, TheShortestNameThatBeginsWithWhatWasGiven) {
  EXPECT_EQ(nearest("--temp", flags), "--temperature");
  EXPECT_EQ(nearest("--max", flags), "--max-tokens");
}

TEST(Nearest, FewEditsAreForgiven) {
  EXPECT_EQ(nearest("--temprature", flags), "--temperature");
  EXPECT_EQ(nearest("--jsno", flags), "--json");  // two neighbours exchanged are one edit
  EXPECT_EQ(nearest("--TOP_K", flags), "--top-k");
  EXPECT_EQ(nearest("shwo", std::vector<std::string>{"run", "show"}), "show");
}

TEST(Nearest, WhatIsFarFromAllNamesHasNone) {
  EXPECT_EQ(nearest("--banana-split", flags), "");
  EXPECT_EQ(nearest("", flags), "");
  EXPECT_EQ(nearest("--", flags), "");
  EXPECT_EQ(nearest(std::string(100'000, 'x'), flags), "");
  EXPECT_EQ(did_you_mean("--banana-split", flags), "");
  EXPECT_EQ(did_you_mean("--temp", flags), "; did you mean --temperature?");
}

}  // namespace
}  // namespace quern
