// Text assembled from pieces that end anywhere.
#include "quern/models/utf8_stream.hpp"

#include <gtest/gtest.h>

namespace quern {
namespace {

const std::string replacement = "\xEF\xBF\xBD";

std::string whole(std::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.push(bytes);
  return text += stream.flush();
}

TEST(Utf8Stream, HoldsACharacterBackUntilItIsComplete) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_TRUE(stream.pending());
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80z"), "\xF0\x9F\x98\x80z");
  EXPECT_FALSE(stream.pending());
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, ReplacesWhatIsHeldBackAtTheEnd) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xE2\x82"), "a");
  EXPECT_EQ(stream.flush(), replacement);
  EXPECT_EQ(stream.push("b"), "b");
}

TEST(Utf8Stream, ReplacesBytesThatCanNoLongerBecomeACharacterAtOnce) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xFF"), replacement);
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.push("a"), replacement + "a");
  EXPECT_EQ(stream.push("\x80"), replacement);
}

// The table of the Unicode standard, section 3.9: "61 F1 80 80 E1 80 C2 62 80 63 80 BF 64".
TEST(Utf8Stream, ReplacesEachMaximalSubpartOnce) {
  EXPECT_EQ(whole("a\xF1\x80\x80\xE1\x80\xC2"
                  "b\x80"
                  "c\x80\xBF"
                  "d"),
            "a" + replacement + replacement + replacement + "b" + replacement + "c" + replacement + replacement + "d");
}

TEST(Utf8Stream, ReplacesOverlongFormsSurrogatesAndCodesBeyondUnicodeByteByByte) {
  EXPECT_EQ(whole("\xC0\x80"), replacement + replacement);
  EXPECT_EQ(whole("\xE0\x80\x80"), replacement + replacement + replacement);
  EXPECT_EQ(whole("\xED\xA0\x80"), replacement + replacement + replacement);
  EXPECT_EQ(whole("\xF0\x80\x80\x80"), replacement + replacement + replacement + replacement);
  EXPECT_EQ(whole("\xF4\x90\x80\x80"), replacement + replacement + replacement + replacement);
  EXPECT_EQ(whole("\xF5"), replacement);
}

TEST(Utf8Stream, KeepsTheFirstAndLastCharacterOfEachLength) {
  const std::string text(
      "\0\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF"
      "\xBF",
      26);
  EXPECT_EQ(whole(text), text);
}

TEST(Utf8Stream, GivesTheSameTextHoweverTheBytesAreCut) {
  const std::string bytes = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xF0\x9F\xE2\x82\xFFz\xED\xA0\x80\xF1\x80\x80";
  const std::string expected = whole(bytes);
  for (std::size_t first = 0; first <= bytes.size(); ++first) {
    for (std::size_t second = first; second <= bytes.size(); ++second) {
      Utf8Stream stream;
      std::string text = stream.push(bytes.substr(0, first));
      text += stream.push(bytes.substr(first, second - first));
      text += stream.push(bytes.substr(second));
      text += stream.flush();
      EXPECT_EQ(text, expected) << first << ' ' << second;
    }
  }
}

}  // namespace
}  // namespace quern
