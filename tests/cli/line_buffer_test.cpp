#include "line_editor.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace quern::cli {
namespace {

LineBuffer typed(std::string_view text) {
  LineBuffer line;
  for (const char byte : text) line.insert(byte);
  return line;
}

TEST(LineBuffer, InsertsAtTheCursor) {
  LineBuffer line = typed("ac");
  line.left();
  line.insert('b');
  EXPECT_EQ(line.text(), "abc");
  EXPECT_EQ(line.columns_after_cursor(), 1u);
}

TEST(LineBuffer, MovesAndErasesWholeCharacters) {
  LineBuffer line = typed("a\xc3\xa9\xe2\x82\xac");  // a, e acute, euro
  line.left();
  EXPECT_EQ(line.cursor(), 3u);
  line.erase_before();
  EXPECT_EQ(line.text(), "a\xe2\x82\xac");
  line.erase_after();
  EXPECT_EQ(line.text(), "a");
}

TEST(LineBuffer, StaysInsideItsText) {
  LineBuffer line;
  line.left();
  line.right();
  line.erase_before();
  line.erase_after();
  line.erase_word();
  EXPECT_EQ(line.text(), "");
  EXPECT_EQ(line.cursor(), 0u);
}

TEST(LineBuffer, ErasesAWordAndTheSidesOfTheCursor) {
  LineBuffer line = typed("one two  ");
  line.erase_word();
  EXPECT_EQ(line.text(), "one ");
  line.to_start();
  line.right();
  line.erase_to_start();
  EXPECT_EQ(line.text(), "ne ");
  line.right();
  line.erase_to_end();
  EXPECT_EQ(line.text(), "n");
}

}  // namespace
}  // namespace quern::cli
