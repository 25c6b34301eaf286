#include "screen_layout.hpp"

#include <gtest/gtest.h>

namespace quern::cli {
namespace {

TEST(ScreenLayout, ALongLineIsOneTextThatTheTerminalWraps) {
  const ScreenLayout layout = lay_out("> ", std::string(120, 'a'), 120, 80, 24);
  EXPECT_EQ(layout.shown, "> " + std::string(120, 'a'));  // no newline: a resized window lays it out anew
  EXPECT_EQ(layout.rows, 2u);
  EXPECT_EQ(layout.row, 1u);
  EXPECT_EQ(layout.column, 42u);  // 2 + 120 - 80
}

TEST(ScreenLayout, BehindAFullRowTheCursorIsOnTheNext) {
  const ScreenLayout layout = lay_out("> ", std::string(78, 'a'), 78, 80, 24);
  EXPECT_EQ(layout.rows, 2u);
  EXPECT_EQ(layout.row, 1u);
  EXPECT_EQ(layout.column, 0u);
  EXPECT_EQ(layout.shown, "> " + std::string(78, 'a') + " \r");
}

TEST(ScreenLayout, WideCharactersTakeTwoColumnsAndMarksNone) {
  EXPECT_EQ(lay_out("> ", "\xe6\x97\xa5\xe6\x9c\xac", 6, 80, 24).column, 6u);  // two ideographs
  EXPECT_EQ(lay_out("> ", "e\xcc\x81x", 4, 80, 24).column, 4u);                // e, combining acute, x
  EXPECT_EQ(lay_out("> ", "\xf0\x9f\x98\x80", 4, 80, 24).column, 4u);          // an emoji
  const ScreenLayout layout = lay_out("> ", "aaa\xe6\x97\xa5", 6, 6, 24);      // one column is left for two
  EXPECT_EQ(layout.rows, 2u);
  EXPECT_EQ(layout.column, 2u);
}

TEST(ScreenLayout, LinesOfATextStandUnderEachOther) {
  const ScreenLayout layout = lay_out("> ", "one\ntwo", 1, 80, 24);
  EXPECT_EQ(layout.shown, "> one\r\n  two");
  EXPECT_EQ(layout.rows, 2u);
  EXPECT_EQ(layout.row, 0u);
  EXPECT_EQ(layout.column, 3u);
}

TEST(ScreenLayout, WhatIsNoTextIsShownAsOneStandIn) {
  const ScreenLayout layout = lay_out("> ", "a\xe9z\x1b\xe2\x80\xae", 7, 80, 24);  // Latin-1, Esc, an override of direction
  EXPECT_EQ(layout.shown, "> a?z??");
  EXPECT_EQ(layout.column, 7u);
}

TEST(ScreenLayout, OfATextTallerThanTheScreenTheRowsAroundTheCursorAreShown) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += std::to_string(i) + "\n";
  const ScreenLayout end = lay_out("> ", text, text.size(), 80, 10);
  EXPECT_EQ(end.rows, 10u);
  EXPECT_EQ(end.row, 9u);
  EXPECT_EQ(end.shown.substr(0, 4), "  91");
  const ScreenLayout start = lay_out("> ", text, 0, 80, 10);
  EXPECT_EQ(start.rows, 10u);
  EXPECT_EQ(start.row, 0u);
  EXPECT_EQ(start.shown.substr(0, 3), "> 0");
}

}  // namespace
}  // namespace quern::cli
