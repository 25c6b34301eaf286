#include "quern/base/terminal_text.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace quern {
namespace {

std::string utf8(std::uint32_t c) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 63))};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
}

/// The bytes and characters that no terminal may get, found by another way than the code under test.
bool is_safe(std::string_view text, bool page) {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (page && (byte == '\n' || byte == '\t')) {
      ++at;
      continue;
    }
    if (byte < 0x20 || byte == 0x7F) return false;
    std::size_t size = 1;
    while (at + size < text.size() && (static_cast<unsigned char>(text[at + size]) & 0xC0) == 0x80) ++size;
    const std::string_view character = text.substr(at, size);
    bool known = size == 1 && byte < 0x80;
    if (size == 2) known = byte >= 0xC2 && byte <= 0xDF && character >= "\xC2\xA0";
    if (size == 3)
      known = byte >= 0xE0 && byte <= 0xEF && character >= "\xE0\xA0\x80" && (character < "\xED\xA0\x80" || character > "\xED\xBF\xBF");
    if (size == 4) known = byte >= 0xF0 && character >= "\xF0\x90\x80\x80" && character <= "\xF4\x8F\xBF\xBF";
    if (!known) return false;
    for (const char* bad : {"\u061C", "\u200E", "\u200F", "\u2028", "\u2029", "\u202A", "\u202B", "\u202C", "\u202D", "\u202E", "\u2066",
                            "\u2067", "\u2068", "\u2069"})
      if (character == bad) return false;
    at += size;
  }
  return true;
}

std::string random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes;
  while (bytes.size() < size) {
    // Half of it bytes, half of it characters around the borders of what is escaped.
    constexpr std::uint32_t places[] = {0x00,   0x1B,   0x7F,   0x80,   0x9B,   0xA0,   0x61B,  0x61D,  0x2000,
                                        0x2027, 0x202F, 0x2065, 0x206A, 0xD7FF, 0xE000, 0xFFFF, 0x10000};
    if (random() % 2 == 0) bytes += static_cast<char>(random() & 255);
    else bytes += utf8(places[random() % std::size(places)] + static_cast<std::uint32_t>(random() % 3));
  }
  return bytes;
}

TEST(TerminalText, ControlCharactersBecomeEscapesAndOtherTextStays) {
  EXPECT_EQ(printable("a\x1b[31m\n\t\xc3\xa9\x7f"), "a\\x1b[31m\\x0a\\x09\xc3\xa9\\x7f");
  EXPECT_EQ(printable_page("a\tb\n\r\x1b]0;t\x07"), "a\tb\n\\x0d\\x1b]0;t\\x07");
  EXPECT_EQ(printable("\u009b2J \u0085"), "\\u009b2J \\u0085");
  EXPECT_EQ(printable("\u202eabc\u202c \u2066x\u2069 \u200e\u200f\u061c \u2028\u2029"),
            "\\u202eabc\\u202c \\u2066x\\u2069 \\u200e\\u200f\\u061c \\u2028\\u2029");
  EXPECT_EQ(printable("na\u00efve \u4e2d\u6587 \U0001F469\u200D\U0001F52C \u00a0"),
            "na\u00efve \u4e2d\u6587 \U0001F469\u200D\U0001F52C \u00a0");
}

TEST(TerminalText, BytesThatAreNoUtf8BecomeEscapes) {
  EXPECT_EQ(printable("\x9b"
                      "2J"),
            "\\x9b2J");
  EXPECT_EQ(printable("\xff\xc0\x80"), "\\xff\\xc0\\x80");
  EXPECT_EQ(printable("\xed\xa0\x80\xed\xb0\x80"), "\\xed\\xa0\\x80\\xed\\xb0\\x80");  // surrogates
  EXPECT_EQ(printable("\xc1\x9b"), "\\xc1\\x9b");                                      // an overlong Esc [
  EXPECT_EQ(printable("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xe4\xb8"), "\\xe4\\xb8");  // a character without its end
}

TEST(TerminalText, RandomBytesLeaveNothingThatATerminalObeys) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    const std::string bytes = random_bytes(1 << 16, seed);
    EXPECT_TRUE(is_safe(printable(bytes), false)) << "seed " << seed;
    EXPECT_TRUE(is_safe(printable_page(bytes), true)) << "seed " << seed;
    EXPECT_FALSE(is_safe(bytes, true)) << "the check itself finds nothing";
    EXPECT_EQ(printable(printable(bytes)), printable(bytes));
  }
}

TEST(TerminalText, PiecesThatSplitAnyCharacterGiveTheSameAsTheWhole) {
  const std::string bytes = random_bytes(2000, 1) + "\n";
  for (std::size_t step = 1; step <= 7; ++step) {
    PrintablePieces pieces;
    std::string out;
    for (std::size_t at = 0; at < bytes.size(); at += step) out += pieces.add(std::string_view(bytes).substr(at, step));
    EXPECT_EQ(out, printable_page(bytes)) << step;
  }
}

TEST(TerminalText, HalfACharacterWaitsForItsRest) {
  PrintablePieces pieces;
  EXPECT_EQ(pieces.add("a\xe4\xb8"), "a");
  EXPECT_EQ(pieces.add("\xad"), "\xe4\xb8\xad");
  EXPECT_EQ(pieces.add("\xc2"), "");
  EXPECT_EQ(pieces.add("\x9b"), "\\u009b");
  EXPECT_EQ(pieces.add("\xe4"), "");
  EXPECT_EQ(pieces.add("\n"), "\\xe4\n");
}

TEST(TerminalText, JsonKeepsItsMeaning) {
  EXPECT_EQ(printable_json("{\"a\":\"\x7f\u009b\u202e\u00e9\"}"), "{\"a\":\"\\u007f\\u009b\\u202e\u00e9\"}");
}

TEST(TerminalText, ATextIsCutBetweenCharacters) {
  EXPECT_EQ(cut_at_character("h\u00e9llo", 2), "h");
  EXPECT_EQ(cut_at_character("h\u00e9llo", 3), "h\u00e9");
  EXPECT_EQ(cut_at_character("\U0001F52Cx", 3), "");
  EXPECT_EQ(cut_at_character("\xff\xff\xff", 2), "\xff\xff");
  EXPECT_EQ(cut_at_character("ab", 2), "ab");
  const std::string bytes = random_bytes(300, 3);
  for (std::size_t most = 0; most <= bytes.size(); ++most) {
    const std::string_view cut = cut_at_character(bytes, most);
    EXPECT_LE(cut.size(), most);
    EXPECT_GE(cut.size() + 3, most);
    EXPECT_EQ(printable(cut) + printable(bytes.substr(cut.size())), printable(bytes)) << most;
  }
}

TEST(TerminalText, QuotedTextIsBounded) {
  EXPECT_EQ(in_quotes("a\x1b"), "'a\\x1b'");
  EXPECT_EQ(in_quotes(std::string(100, 'a'), 5), "'aaaaa...'");
  EXPECT_EQ(in_quotes("\u4e2d\u6587", 4), "'\u4e2d...'");
  EXPECT_LT(in_quotes(std::string(16 << 20, '\x1b')).size(), 400u);
}

TEST(TerminalText, AFixedArrayHoldsWholeEscapesAndAZero) {
  for (std::size_t size = 1; size < 12; ++size) {
    std::vector<char> buffer(size, 'x');
    printable_into("ab\x1b\u4e2d", buffer.data(), size);
    const std::string text = buffer.data();
    EXPECT_LT(text.size(), size);
    EXPECT_EQ(text, size > 9 ? "ab\\x1b\u4e2d" : size > 6 ? "ab\\x1b" : size > 2 ? "ab" : std::string("ab").substr(0, size - 1));
  }
}

}  // namespace
}  // namespace quern
