#include "chat_settings.hpp"

#include "failure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::cli {
namespace {

CommandLine parsed_run(std::vector<std::string> arguments) {
  return parse_command_line(arguments, "quern 9.9", [](const char*) { return std::optional<std::string>(); });
}

TEST(ChatSettings, ASettingIsReadAsItsFlagIs) {
  CommandLine line = parsed_run({"run", "m", "--top-k", "5", "--logit-bias", "3=1"});
  ChatSettings settings(line.run, line.flags);
  settings.set("temperature 0.25");
  settings.set("--max_tokens 12");
  settings.set("prefill Sure: yes");
  settings.set("presence-penalty -1");
  EXPECT_EQ(line.run.sampling.temperature, 0.25f);
  EXPECT_EQ(line.run.sampling.presence_penalty, -1.0f);
  EXPECT_EQ(line.run.max_tokens, 12u);
  EXPECT_EQ(line.run.prefill, "Sure: yes");
  EXPECT_EQ(line.run.sampling.top_k, 5u);  // of the command line
  EXPECT_EQ(line.run.sampling.bias.size(), 1u);
  settings.set("top-k default");
  settings.set("temperature default");
  EXPECT_EQ(line.run.sampling.top_k, 0u);
  EXPECT_EQ(line.run.sampling.temperature, SamplingFlags().temperature);
}

TEST(ChatSettings, WhatCannotBeSetChangesNothing) {
  CommandLine line = parsed_run({"run", "m", "--temperature", "0.5"});
  ChatSettings settings(line.run, line.flags);
  const std::string before = settings.page();
  const auto refused = [&](const std::string& text) {
    try {
      settings.set(text);
    } catch (const Failure& failure) { return std::string(failure.what()); }
    return std::string();
  };
  EXPECT_THAT(refused("temprature 1"), testing::HasSubstr("did you mean temperature?"));
  EXPECT_THAT(refused("temperature"), testing::HasSubstr("needs a value"));
  EXPECT_THAT(refused("temperature hot\x1b"), testing::HasSubstr("'hot\\x1b' is not a number"));
  EXPECT_THAT(refused("backend cuda"), testing::HasSubstr("is no setting of an answer"));
  EXPECT_EQ(settings.page(), before);
  EXPECT_EQ(line.run.sampling.temperature, 0.5f);
}

TEST(ChatSettings, ThePageHasEachWithItsValue) {
  CommandLine line = parsed_run({"run", "m", "--temperature", "0.5"});
  const ChatSettings settings(line.run, line.flags);
  EXPECT_THAT(settings.page(), testing::HasSubstr("temperature        0.5\n"));
  for (const std::string& name : ChatSettings::names()) EXPECT_THAT(settings.page(), testing::HasSubstr(name + " "));
}

}  // namespace
}  // namespace quern::cli
