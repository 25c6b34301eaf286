#include "output.hpp"
#include "progress.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace quern::cli {
namespace {

TEST(JsonLine, IsOneLineWhateverTheText) {
  EXPECT_EQ(json_line({{"text", "a\nb\"c"}}), "{\"text\":\"a\\nb\\\"c\"}\n");
}

TEST(JsonLine, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(json_line({{"text", "a\xff"}}), "{\"text\":\"a\xef\xbf\xbd\"}\n");
}

TEST(JsonLine, WritesNullForWhatIsNotFinite) {
  EXPECT_EQ(json_line({{"x", std::numeric_limits<double>::infinity()}}), "{\"x\":null}\n");
}

TEST(Printable, ShowsControlCharactersAndKeepsUtf8) {
  EXPECT_EQ(printable("a\x1b[31m\n\xc3\xa9"), "a\\x1b[31m\\x0a\xc3\xa9");
}

TEST(ProgressLine, FillsWithTheShareAndKeepsTheWidth) {
  EXPECT_EQ(progress_line("loading", "m", 0, 100, 40), "loading m [" + std::string(22, '.') + "] 0 %");
  const std::string half = progress_line("loading", "model.gguf", 50, 100, 80);
  EXPECT_NE(half.find("] 50 %"), std::string::npos);
  EXPECT_NE(half.find("####################...................."), std::string::npos) << half;
  for (const int columns : {10, 20, 40, 80, 200})
    EXPECT_LT(progress_line("loading", std::string(60, 'x'), 100, 100, columns).size(), std::max<std::size_t>(21, columns));
}

TEST(ProgressLine, ShowsANameInEscapesAndCountsThem) {
  EXPECT_EQ(progress_line("loading", "a\x1b[2J\u202e", 0, 100, 80).substr(0, 24), "loading a\\x1b[2J\\u202e [");
  EXPECT_EQ(progress_line("loading", std::string(20, '\x1b'), 0, 100, 80).substr(0, 9), "loading [");
}

TEST(ProgressLine, SurvivesATotalOfZeroAndMoreThanAll) {
  EXPECT_NE(progress_line("loading", "m", 0, 0, 80).find("0 %"), std::string::npos);
  EXPECT_NE(progress_line("loading", "m", 200, 100, 80).find("] 100 %"), std::string::npos);
}

}  // namespace
}  // namespace quern::cli
