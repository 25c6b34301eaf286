// UTF-8 and the character classes that pre-tokenizers ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quern::tokenizer {

enum class CharClass : std::uint8_t {
  letter,  // general category L*
  number,  // N*
  space,   // White_Space
  other,   // everything else, invalid bytes included
};

/// What some rules tell apart beyond that.
enum class CharKind : std::uint8_t {
  upper,        // Lu, Lt
  lower,        // Ll
  caseless,     // Lm, Lo
  mark,         // M*
  number,       // N*
  punctuation,  // P*
  space,        // White_Space
  other,
};

struct Char {
  char32_t code = 0;        // U+FFFD for a byte that is not UTF-8
  std::uint8_t length = 0;  // bytes; 1 for a byte that is not UTF-8; 0 at the end of the text
  bool valid = false;
};

/// The character that starts at `at`; length 0 if `at` is the end. Refuses overlong forms, surrogates and
/// codes above U+10FFFF: such bytes come out one at a time as invalid.
Char decode_char(std::string_view text, std::size_t at) noexcept;

/// The start of the character that ends at `at`, which is the end of one of decode_char()'s; `at` is not 0.
std::size_t previous_char(std::string_view text, std::size_t at) noexcept;

/// The general category of Unicode 16, a value of utf8proc_category_t.
int category_of(char32_t code) noexcept;

CharClass class_of(char32_t code) noexcept;
CharKind kind_of(char32_t code) noexcept;

struct ClassifiedChar {
  Char character;
  CharClass kind = CharClass::other;
};
ClassifiedChar classify(std::string_view text, std::size_t at) noexcept;

void append_utf8(char32_t code, std::string& out);

/// U+FFFD.
inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

}  // namespace quern::tokenizer
