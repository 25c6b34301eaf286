#include "conversation.hpp"

#include "failure.hpp"
#include "output.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::cli {
namespace {

Conversation talk() {
  Conversation chat;
  chat.set_system("be brief");
  for (const char* turn : {"1", "2", "3"}) {
    chat.add("user", std::string("question ") + turn);
    chat.add("assistant", std::string("answer ") + turn);
  }
  return chat;
}

std::string load_refusal(const std::string& json) {
  try {
    read_saved_chat(json, "a.json");
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), exit_refused);
    return failure.what();
  }
  return "";
}

TEST(Conversation, UndoForgetsTheLastMessageAndItsAnswer) {
  Conversation chat = talk();
  EXPECT_EQ(chat.undo(), "question 3");
  EXPECT_EQ(chat.last_answer(), "answer 2");
  chat.clear();
  EXPECT_EQ(chat.undo(), std::nullopt);
  EXPECT_EQ(chat.messages().size(), 1u);  // the system message stays
}

TEST(Conversation, TheOldestAreDroppedButNeitherTheSystemNorTheLastMessage) {
  Conversation chat = talk();
  EXPECT_TRUE(chat.drop_oldest());
  EXPECT_TRUE(chat.drop_oldest());
  EXPECT_FALSE(chat.drop_oldest());
  EXPECT_EQ(chat.messages(), (std::vector<Message>{{"system", "be brief"}, {"user", "question 3"}, {"assistant", "answer 3"}}));
}

TEST(ChatHistory, ShowsEachTurn) {
  EXPECT_EQ(history_page({{"user", "Hi"}, {"assistant", "Hello"}}), "user: Hi\nassistant: Hello\n");
  EXPECT_EQ(history_page({}), "nothing was said yet\n");
}

TEST(SavedChat, ComesBackAsItWas) {
  Conversation chat = talk();
  chat.add("user", std::string("\"\\\n\0\x1b \u65e5", 9));
  EXPECT_EQ(read_saved_chat(saved_chat(chat), "a.json").messages(), chat.messages());
  EXPECT_EQ(read_saved_chat(R"([{"role": "user", "content": "x"}])", "a.json").messages().size(), 1u);
}

TEST(SavedChat, AFileThatIsNoneIsRefusedByName) {
  EXPECT_EQ(load_refusal("{"), "a.json: is no saved chat: it is not JSON");
  EXPECT_EQ(load_refusal("\xff"), "a.json: is no saved chat: it is not JSON");
  EXPECT_EQ(load_refusal("{}"), "a.json: is no saved chat: it has no list of messages");
  EXPECT_EQ(load_refusal("[1]"), "a.json: is no saved chat: message 1 has no role");
  EXPECT_EQ(load_refusal(R"([{"role": "user"}])"), "a.json: is no saved chat: message 1 has no text as its content");
  EXPECT_EQ(load_refusal(R"([{"role": "user", "content": []}])"), "a.json: is no saved chat: message 1 has no text as its content");
  EXPECT_EQ(load_refusal(R"([{"role": "user", "content": "x"}, {"role": "system", "content": "y"}])"),
            "a.json: is no saved chat: message 2 has the role 'system'; a chat has user and assistant, and system in front");
  EXPECT_EQ(load_refusal(R"([{"role": "\u001b[2J", "content": "x"}])"),
            "a.json: is no saved chat: message 1 has the role '\\x1b[2J'; a chat has user and assistant, and system in front");
}

TEST(SavedChat, AHostileFileCostsNoMoreThanItsSize) {
  EXPECT_THAT(load_refusal(std::string(4 << 20, '[')), testing::HasSubstr("in more than 8 others"));
  std::string empty_lists = "[[]";
  for (int i = 0; i < 1'000'000; ++i) empty_lists += ",[]";
  EXPECT_THAT(load_refusal(empty_lists + "]"), testing::HasSubstr("more than 10,000 messages have"));
  EXPECT_THAT(load_refusal("\"" + std::string(17 << 20, 'x') + "\""), testing::HasSubstr("more than 16.0 MiB"));
  std::string many = "[";
  for (std::size_t i = 0; i <= most_saved_messages; ++i) many += std::string(i == 0 ? "" : ",") + R"({"role":"user","content":""})";
  EXPECT_THAT(load_refusal(many + "]"), testing::HasSubstr("more than 10,000 messages"));
}

}  // namespace
}  // namespace quern::cli
