#include "input.hpp"

#include "failure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace quern::cli {
namespace {

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

TEST(WithInput, ALoneDashIsThePlaceOfTheInput) {
  EXPECT_EQ(with_input("Here: - Which is oldest?", "a\nb"), "Here: a\nb Which is oldest?");
  EXPECT_EQ(with_input("-\nWhich is oldest?", "notes"), "notes\nWhich is oldest?");
  EXPECT_EQ(with_input("Which is oldest?\n\n-", "notes"), "Which is oldest?\n\nnotes");
  EXPECT_EQ(with_input("Here: - and -", ""), "Here: - and -");
}

TEST(WithInput, OtherDashesAreText) {
  for (const std::string prompt : {"a-b --c -d", "- a list", "Compare:\n  - one\n", "one - two - three"})
    EXPECT_EQ(with_input(prompt, "notes"), appended(prompt, "notes"));
}

TEST(ReadText, NamesTheByteThatIsNoUtf8) {
  const std::string path = testing::TempDir() + "quern-read-text-test";
  for (const auto& [bytes, bad] : {std::pair<std::string, int>("caf\xe9", 4), {"a\xc0\x80", 2}, {"\xed\xa0\x80", 1}, {"ab\xe4\xb8", 3}}) {
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      read_text(path);
      ADD_FAILURE() << "no failure";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.what(),
                path + ": is not text in UTF-8: byte " + std::to_string(bad) + " belongs to no character; give it in UTF-8");
    }
  }
  std::ofstream(path, std::ios::binary) << "caf\xc3\xa9 \xf0\x9f\x98\x80\n";
  EXPECT_EQ(read_text(path), "caf\xc3\xa9 \xf0\x9f\x98\x80\n");
  std::remove(path.c_str());
}

TEST(ReadFile, NamesAFolder) { EXPECT_THROW(read_file(testing::TempDir()), Failure); }

}  // namespace
}  // namespace quern::cli
