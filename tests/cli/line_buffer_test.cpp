#include "line_buffer.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace quern::cli {
namespace {

LineBuffer typed(std::string_view text) {
  LineBuffer line;
  line.insert(text);
  return line;
}

TEST(LineBuffer, InsertsAtTheCursor) {
  LineBuffer line = typed("ac");
  line.left();
  line.insert("b");
  EXPECT_EQ(line.text(), "abc");
  EXPECT_EQ(line.cursor(), 2u);
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

TEST(LineBuffer, AMarkAndAnEmojiBelongToTheirCharacter) {
  LineBuffer line = typed("xe\xcc\x81");  // x, e with a combining acute
  line.erase_before();
  EXPECT_EQ(line.text(), "x");
  line = typed("x\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb");  // a woman, joined to a laptop
  line.left();
  EXPECT_EQ(line.cursor(), 1u);
  line = typed("a\xe9\xff");  // no UTF-8: a byte at a time
  line.left();
  EXPECT_EQ(line.cursor(), 2u);
}

TEST(LineBuffer, MovesByWordsAndStaysInItsLineOfText) {
  LineBuffer line = typed("one, two\nthree four");
  line.word_left();
  EXPECT_EQ(line.cursor(), 15u);
  line.to_start();
  EXPECT_EQ(line.cursor(), 9u);
  line.left();
  line.to_end();
  EXPECT_EQ(line.cursor(), 8u);
  line.erase_to_start();
  EXPECT_EQ(line.text(), "\nthree four");
  line.word_right();
  EXPECT_EQ(line.cursor(), 6u);
  line.erase_word_after();
  EXPECT_EQ(line.text(), "\nthree");
}

TEST(LineBuffer, StaysInsideItsText) {
  LineBuffer line;
  line.left();
  line.right();
  line.erase_before();
  line.erase_after();
  line.erase_word_before();
  EXPECT_EQ(line.text(), "");
  EXPECT_EQ(line.cursor(), 0u);
}

TEST(LineBuffer, ErasesAWordAndTheSidesOfTheCursor) {
  LineBuffer line = typed("one two  ");
  line.erase_word_before();
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
