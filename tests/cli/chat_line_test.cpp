#include "chat.hpp"

#include <gtest/gtest.h>

namespace quern::cli {
namespace {

TEST(ChatLine, TellsCommandsFromWords) {
  EXPECT_EQ(parse_chat_line("/exit"), ChatCommand::exit);
  EXPECT_EQ(parse_chat_line(" /quit "), ChatCommand::exit);
  EXPECT_EQ(parse_chat_line("/help"), ChatCommand::help);
  EXPECT_EQ(parse_chat_line("/clear"), ChatCommand::clear);
  EXPECT_EQ(parse_chat_line("/history"), ChatCommand::history);
  EXPECT_EQ(parse_chat_line("/ext"), ChatCommand::unknown);
  EXPECT_EQ(parse_chat_line("what is /exit?"), ChatCommand::say);
  EXPECT_EQ(parse_chat_line(" \t"), ChatCommand::nothing);
  EXPECT_EQ(parse_chat_line(""), ChatCommand::nothing);
}

TEST(ChatHistory, ShowsEachTurn) {
  EXPECT_EQ(history_page({{"user", "Hi"}, {"assistant", "Hello"}}), "user: Hi\nassistant: Hello\n");
  EXPECT_EQ(history_page({}), "nothing was said yet\n");
}

}  // namespace
}  // namespace quern::cli
