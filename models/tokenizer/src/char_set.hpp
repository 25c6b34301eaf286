// Sets of characters as expressions name them: ranges, general categories, scripts.
#pragma once

#include "unicode.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

struct CodeRange {
  char32_t first, last;
  bool operator==(const CodeRange&) const = default;
};

/// Whether one of sorted ranges has it.
bool is_in(std::span<const CodeRange> ranges, char32_t code) noexcept;

/// Sorted ranges that do not touch.
class CharSet {
 public:
  static constexpr char32_t last_code = 0x10FFFF;

  CharSet() = default;
  explicit CharSet(std::vector<CodeRange> ranges);
  static CharSet one(char32_t code) { return CharSet({{code, code}}); }

  CharSet operator|(const CharSet& other) const;
  CharSet operator&(const CharSet& other) const { return ~(~*this | ~other); }
  CharSet operator~() const;
  bool operator==(const CharSet&) const = default;

  std::span<const CodeRange> ranges() const noexcept { return ranges_; }
  bool holds(char32_t code) const noexcept { return is_in(ranges_, code); }
  /// With all that differs in case alone, one character for one.
  CharSet without_case() const;
  /// Whether it has a character that differs in case alone from several, as U+00DF from "ss".
  bool stands_for_several() const;

 private:
  std::vector<CodeRange> ranges_;
};

/// By the name in \p{...}, without regard to case: a general category (L, Lu), Any, or a script that scripts.inc has.
std::optional<CharSet> named_set(std::string_view name);
/// What named_set() takes, for error texts.
inline constexpr std::string_view named_sets =
    "general categories, Any, Arabic, Cyrillic, Devanagari, Greek, Han, Hangul, Hebrew, Hiragana, Katakana, Latin and Thai";

// Of Oniguruma: \s, \d, \w and \h.
CharSet space_set();
CharSet digit_set();
CharSet word_set();
CharSet lone_word_set();  // \w outside of a set in brackets: with the raised digits and fractions of Latin-1
CharSet hex_digit_set();

/// The lower case of a character, alone and without regard to its neighbours: one or two characters.
std::u32string lower_case(char32_t code);

/// Whether one character differs in case alone from several at the end of `text`, as U+00DF does from "ss".
bool ends_like_one_character(std::u32string_view text);

/// Membership in constant time for the most used codes.
class CharTest {
 public:
  explicit CharTest(CharSet set);
  bool operator()(char32_t code) const noexcept {
    return code < table_codes ? (table_[code / 64] >> (code % 64) & 1) != 0 : set_.holds(code);
  }

 private:
  static constexpr char32_t table_codes = 0x10000;

  CharSet set_;
  std::vector<std::uint64_t> table_;
};

}  // namespace quern::tokenizer
