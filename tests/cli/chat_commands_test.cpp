#include "chat_commands.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>

namespace quern::cli {
namespace {

TEST(ChatCommands, AreToldFromWords) {
  EXPECT_EQ(parse_chat_line("/exit").verb, ChatVerb::exit);
  EXPECT_EQ(parse_chat_line(" /quit ").verb, ChatVerb::exit);
  EXPECT_EQ(parse_chat_line("what is /exit?").verb, ChatVerb::say);
  EXPECT_EQ(parse_chat_line("/usr/bin is full").verb, ChatVerb::say);
  EXPECT_EQ(parse_chat_line(" \t").verb, ChatVerb::nothing);
  EXPECT_EQ(parse_chat_line("").verb, ChatVerb::nothing);
  for (const ChatCommand& command : chat_commands())
    EXPECT_EQ(parse_chat_line(std::string(command.name) + (*command.placeholder == '\0' ? "" : " a b")).verb, command.verb) << command.name;
}

TEST(ChatCommands, HaveWhatStandsBehindThem) {
  EXPECT_EQ(parse_chat_line("/save  my chat.json ").argument, "my chat.json");
  EXPECT_EQ(parse_chat_line("/system").argument, "");
  EXPECT_EQ(parse_chat_line("/system be\nbrief").argument, "be\nbrief");
}

TEST(ChatCommands, SayWhatIsWrongWithOne) {
  EXPECT_EQ(parse_chat_line("/sav x").argument, "unknown command '/sav'; did you mean /save?; /help lists them");
  EXPECT_EQ(parse_chat_line("/save").argument, "/save needs a name: /save FILE");
  EXPECT_THAT(parse_chat_line("/undo all").argument, testing::StartsWith("/undo takes nothing behind it"));
  for (const char* line : {"/sav x", "/save", "/undo all"}) EXPECT_EQ(parse_chat_line(line).verb, ChatVerb::unknown);
}

TEST(ChatCommands, TheHelpPageHasThemAll) {
  for (const ChatCommand& command : chat_commands())
    EXPECT_THAT(chat_help(), testing::HasSubstr(std::string(command.name) +
                                                (*command.placeholder == '\0' ? " " : " " + std::string(command.placeholder))));
}

TEST(ChatCommands, TheManualHasThemAllAndNoOther) {
  std::ifstream file(QUERN_TEST_SOURCE "/packaging/man/quern-run.1");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  std::set<std::string> in_table, in_manual;
  for (const ChatCommand& command : chat_commands()) in_table.insert(std::string(command.name) + " " + command.placeholder);
  const std::regex entry("\n\\.TP\n\\.BI? (/[a-z]+)(?: \" ([^\"]*)\")?");
  for (std::sregex_iterator at(page.begin(), page.end(), entry); at != std::sregex_iterator(); ++at)
    in_manual.insert((*at)[1].str() + " " + (*at)[2].str());
  EXPECT_EQ(in_manual, in_table);
}

}  // namespace
}  // namespace quern::cli
