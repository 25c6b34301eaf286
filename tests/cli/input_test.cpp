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

TEST(ReadFile, NamesAFolder) {
  EXPECT_THROW(read_file(testing::TempDir()), Failure);
}

}  // namespace
}  // namespace quern::cli
