#include "key_parser.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quern::cli {
namespace {

std::vector<Key> keys_of(std::string_view bytes, bool no_more = true) {
  KeyParser parser;
  parser.feed(bytes);
  std::vector<Key> keys;
  while (const auto key = parser.next(no_more)) keys.push_back(*key);
  return keys;
}

TEST(KeyParser, APasteOfSeveralLinesIsOneKeyWithoutControlCharacters) {
  const auto keys = keys_of("a\x1b[200~one\r\ntwo\rthree\x07\x1b]0;t\x07\n\tfour\x1b[201~\r");
  ASSERT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys[1].kind, KeyKind::paste);
  EXPECT_EQ(keys[1].text, "one\ntwo\nthree]0;t\n\tfour");
  EXPECT_EQ(keys[2].kind, KeyKind::enter);
}

TEST(KeyParser, APasteIsWholeOnlyWithItsEnd) {
  KeyParser parser;
  parser.feed("\x1b[200~one");
  EXPECT_FALSE(parser.next(true).has_value());
  parser.feed("\r two\x1b[20");
  EXPECT_FALSE(parser.next(true).has_value());
  parser.feed("1~");
  EXPECT_EQ(parser.next()->text, "one\n two");
}

TEST(KeyParser, ACharacterThatComesInPartsIsOne) {
  KeyParser parser;
  parser.feed("a\xe2\x82");
  EXPECT_EQ(parser.next()->text, "a");
  EXPECT_FALSE(parser.next().has_value());
  parser.feed("\xac");
  EXPECT_EQ(parser.next()->text, "\xe2\x82\xac");
  EXPECT_EQ(keys_of("caf\xe9").at(0).text, "caf\xe9");  // Latin-1: nothing more comes
}

TEST(KeyParser, SequencesAreKeysAndUnknownOnesAreNoText) {
  const auto kinds = [](std::string_view bytes) {
    std::vector<KeyKind> found;
    for (const Key& key : keys_of(bytes)) found.push_back(key.kind);
    return found;
  };
  EXPECT_EQ(kinds("\x1b[A\x1bOB\x1b[C\x1b[D"), (std::vector{KeyKind::up, KeyKind::down, KeyKind::right, KeyKind::left}));
  EXPECT_EQ(kinds("\x1b[1;5C\x1b[1;3D\x1b[3~\x1b[H\x1b[4~"),
            (std::vector{KeyKind::word_right, KeyKind::word_left, KeyKind::erase, KeyKind::home, KeyKind::end}));
  EXPECT_EQ(kinds("\x1b\r\x1b"
                  "b\x1b"),
            (std::vector{KeyKind::alt_enter, KeyKind::alt, KeyKind::escape}));
  EXPECT_EQ(kinds("\x1b[99;99;99y"), (std::vector{KeyKind::unknown}));
}

TEST(KeyParser, AnyBytesEndInKeys) {
  std::string bytes;
  unsigned state = 1;
  for (int i = 0; i < 100'000; ++i) bytes += static_cast<char>((state = state * 1103515245u + 12345u) >> 16);
  bytes += "\x1b[201~";  // ends a paste that the bytes may have begun
  std::size_t taken = 0;
  for (const Key& key : keys_of(bytes)) taken += key.text.size();
  EXPECT_GT(taken, 0u);
}

}  // namespace
}  // namespace quern::cli
