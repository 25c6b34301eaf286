#include "typed_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace quern::cli {
namespace {

namespace fs = std::filesystem;

class TypedLinesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern-typed-XXXXXX";
    folder_ = mkdtemp(name.data());
    setenv("XDG_STATE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("XDG_STATE_HOME");
    fs::remove_all(folder_);
  }
  fs::path file() const { return folder_ / "quern/chat_history"; }
  void write(const std::string& text) const {
    fs::create_directories(file().parent_path());
    std::ofstream(file(), std::ios::binary) << text;
  }
  std::vector<std::string> read() {
    TypedLines lines;
    return lines.read(problem_);
  }

  fs::path folder_;
  std::string problem_;
};

TEST_F(TypedLinesTest, ComeBackAsTheyWereFromAFileOfTheUsersOwn) {
  TypedLines lines;
  EXPECT_TRUE(read().empty());
  for (const char* line : {"one", "two\nlines \"\x1b\u65e5"}) lines.add(line, problem_);
  EXPECT_EQ(read(), (std::vector<std::string>{"one", "two\nlines \"\x1b\u65e5"}));
  EXPECT_EQ(fs::status(file()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(problem_, "");
}

TEST_F(TypedLinesTest, ALineThatIsNoneIsLeftOut) {
  write("\"a\"\n" + std::string(100'000, '[') + "\n{}\n\"open\n\"" + std::string(70'000, 'x') + "\"\n\xff\n\n\"b\"");
  EXPECT_EQ(read(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(TypedLinesTest, TheFileIsKeptShort) {
  std::string many;
  for (int i = 0; i < 2500; ++i) many += "\"" + std::to_string(i) + "\"\n";
  write(many);
  EXPECT_EQ(read().size(), 1000u);
  EXPECT_EQ(read().back(), "2499");
  EXPECT_LT(fs::file_size(file()), 10'000u);
}

TEST_F(TypedLinesTest, ALinkIsNeitherReadNorWritten) {
  write("");
  fs::rename(file(), folder_ / "other");
  fs::create_symlink(folder_ / "other", file());
  TypedLines lines;
  lines.add("one", problem_);
  EXPECT_THAT(problem_, testing::HasSubstr("is a link"));
  problem_.clear();
  lines.add("two", problem_);  // said once
  EXPECT_EQ(problem_, "");
  read();
  EXPECT_THAT(problem_, testing::HasSubstr("is a link"));
  EXPECT_EQ(fs::file_size(folder_ / "other"), 0u);
}

}  // namespace
}  // namespace quern::cli
