#include "input.hpp"

#include "failure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace quern::cli {
namespace {

std::string refusal(const std::string& json) {
  try {
    parse_messages(json, "chat.json");
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), exit_refused);
    return failure.what();
  }
  return "";
}

TEST(Messages, KeepRoleAndContentInOrder) {
  const auto messages =
      parse_messages(R"([{"role": "system", "content": ""}, {"role": "user", "content": "h\u00e9\n"}])", "f");
  EXPECT_EQ(messages, (std::vector<Message>{{"system", ""}, {"user", "h\xc3\xa9\n"}}));
}

TEST(Messages, AreRefusedWithTheFileAndTheElement) {
  EXPECT_THAT(refusal("{"), testing::HasSubstr("chat.json: not JSON"));
  EXPECT_THAT(refusal(""), testing::HasSubstr("chat.json: not JSON"));
  EXPECT_THAT(refusal("{}"), testing::HasSubstr("a object"));
  EXPECT_THAT(refusal("[]"), testing::HasSubstr("an empty list"));
  EXPECT_THAT(refusal("[1]"), testing::HasSubstr("message 1"));
  EXPECT_THAT(refusal(R"([{"role": "user"}])"), testing::HasSubstr("'content' is missing"));
  EXPECT_THAT(refusal(R"([{"role": "user", "content": "a"}, {"role": 1, "content": ""}])"),
              testing::HasSubstr("message 2: 'role' is a number"));
  EXPECT_THAT(refusal(R"([{"role": "user", "content": "a", "name": "b"}])"), testing::HasSubstr("'name'"));
  EXPECT_THAT(refusal("[{\"role\": \"user\", \"content\": \"\xff\"}]"), testing::HasSubstr("not JSON"));
}

TEST(Messages, NestedDeeperThanAnyListOfMessagesAreRefusedBeforeParsing) {
  EXPECT_THAT(refusal(std::string(100000, '[')), testing::HasSubstr("nested deeper"));
  EXPECT_EQ(parse_messages(R"([{"role": "user", "content": "[[[[\"[[[["}])", "f").size(), 1u);
}

TEST(ReadFile, GivesEveryByte) {
  const std::string path = testing::TempDir() + "quern-read-file-test";
  const std::string bytes("a\r\n\0b\n", 6);
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(read_file(path), bytes);
  std::remove(path.c_str());
}

TEST(ReadFile, NamesAFileThatIsNotThere) {
  try {
    read_file("no/such/file.txt");
    FAIL() << "no failure";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), exit_refused);
    EXPECT_THAT(failure.what(), testing::StartsWith("no/such/file.txt: "));
  }
}

TEST(WithInput, TheInputFollowsThePromptAfterABlankLine) {
  EXPECT_EQ(with_input("Summarise this", "some text\n"), "Summarise this\n\nsome text\n");
  EXPECT_EQ(with_input("Summarise this", ""), "Summarise this");
  EXPECT_EQ(with_input("", "some text"), "some text");
}

TEST(ReadFile, NamesAFolder) {
  EXPECT_THROW(read_file(testing::TempDir()), Failure);
}

}  // namespace
}  // namespace quern::cli
