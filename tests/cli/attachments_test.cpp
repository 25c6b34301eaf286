#include "attachments.hpp"

#include "failure.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace quern::cli {
namespace {

using Words = std::vector<std::string>;

/// A folder with some files, in which the test runs.
class Attachments : public testing::Test {
 protected:
  void SetUp() override {
    before_ = std::filesystem::current_path();
    std::string name = testing::TempDir() + "quern-attachments-XXXXXX";
    folder_ = mkdtemp(name.data());
    std::filesystem::current_path(folder_);
    write("notes.txt", "the notes\n");
    write("my notes.md", "mine");
    write(".hidden", "h");
    write("bytes", "\xff");
    write("esc\x1b[2J", "e");
    std::filesystem::create_directory("notes");
    write("notes/a", "a");
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }
  static void write(const std::string& name, const std::string& text) { std::ofstream(name, std::ios::binary) << text; }

 private:
  std::filesystem::path before_, folder_;
};

TEST_F(Attachments, FilesThatAMessageNamesStandBehindIt) {
  EXPECT_EQ(attach_files("Sum up @notes.txt, please").message, "Sum up @notes.txt, please\n\nthe notes\n");
  EXPECT_EQ(attach_files("(@\"my notes.md\")").message, "(@\"my notes.md\")\n\nmine");
  EXPECT_EQ(attach_files("@notes/a and @notes.txt and @notes/a").files, (Words{"notes/a", "notes.txt"}));
}

TEST_F(Attachments, OtherWordsStayWords) {
  for (const std::string text : {"me@notes.txt", "@alice hi", "@", "a @ b", "@\"", "@me."}) {
    EXPECT_EQ(attach_files(text).message, text);
    EXPECT_EQ(attach_files(text).missing, Words{}) << text;
  }
  EXPECT_EQ(attach_files("see @nots.txt or @no/where.").missing, (Words{"nots.txt", "no/where"}));
}

TEST_F(Attachments, AFileThatIsNoTextIsRefused) {
  EXPECT_THROW(attach_files("@bytes"), Failure);
  EXPECT_THROW(attach_files("@notes"), Failure);  // a folder
}

Words completed(const std::string& text) { return complete_chat(text, text.size()).words; }

TEST_F(Attachments, TabCompletesFiles) {
  EXPECT_EQ(completed("see @no"), (Words{"@notes.txt ", "@notes/"}));
  EXPECT_EQ(complete_chat("see @no", 7).from, 4u);
  EXPECT_EQ(completed("@notes/"), (Words{"@notes/a "}));
  EXPECT_EQ(completed("@my"), (Words{"@\"my notes.md\" "}));
  EXPECT_EQ(completed("@\"my n"), (Words{"@\"my notes.md\" "}));
  EXPECT_EQ(completed("@.h"), (Words{"@.hidden "}));
  EXPECT_EQ(completed("@es"), Words{});  // a name that a terminal would not show
  EXPECT_EQ(completed("/save my"), (Words{"my notes.md"}));
  EXPECT_FALSE(complete_chat("mail me@no", 10).possible);
}

TEST_F(Attachments, TabCompletesCommandsAndSettings) {
  EXPECT_EQ(completed("/un"), (Words{"/undo "}));
  EXPECT_EQ(completed("/s").size(), 5u);  // system, set, show, stats, save
  EXPECT_EQ(completed("/set temp"), (Words{"temperature "}));
  EXPECT_EQ(completed("/undo "), Words{});
  EXPECT_TRUE(complete_chat("/undo ", 6).possible);
}

}  // namespace
}  // namespace quern::cli
