// UTF-8 and the character classes that pre-tokenizers ask for.
#include "unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace quern::tokenizer {
namespace {

// White_Space of the Unicode character database; it has not changed since Unicode 6.3.
constexpr bool is_space(char32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

struct Range {
  char32_t first, last;
  CharClass kind;
};

// Letters and numbers of Unicode 15.1 and 16, which utf8proc 2.8 does not know yet. Sorted.
constexpr Range newer[] = {
    {0x1C89, 0x1C8A, CharClass::letter},   {0xA7CB, 0xA7CD, CharClass::letter},
    {0xA7DA, 0xA7DC, CharClass::letter},   {0x105C0, 0x105F3, CharClass::letter},
    {0x10D40, 0x10D49, CharClass::number}, {0x10D4A, 0x10D65, CharClass::letter},
    {0x10D6F, 0x10D85, CharClass::letter}, {0x10EC2, 0x10EC4, CharClass::letter},
    {0x11380, 0x11389, CharClass::letter}, {0x1138B, 0x1138B, CharClass::letter},
    {0x1138E, 0x1138E, CharClass::letter}, {0x11390, 0x113B5, CharClass::letter},
    {0x113B7, 0x113B7, CharClass::letter}, {0x113D1, 0x113D1, CharClass::letter},
    {0x113D3, 0x113D3, CharClass::letter}, {0x116D0, 0x116E3, CharClass::number},
    {0x11BC0, 0x11BE0, CharClass::letter}, {0x11BF0, 0x11BF9, CharClass::number},
    {0x13460, 0x143FA, CharClass::letter}, {0x16100, 0x1611D, CharClass::letter},
    {0x16130, 0x16139, CharClass::number}, {0x16D40, 0x16D6C, CharClass::letter},
    {0x16D70, 0x16D79, CharClass::number}, {0x18CFF, 0x18CFF, CharClass::letter},
    {0x1CCF0, 0x1CCF9, CharClass::number}, {0x1E5D0, 0x1E5ED, CharClass::letter},
    {0x1E5F0, 0x1E5F0, CharClass::letter}, {0x1E5F1, 0x1E5FA, CharClass::number},
    {0x2EBF0, 0x2EE5D, CharClass::letter},
};

CharClass look_up_newer(char32_t code) noexcept {
  const auto range = std::ranges::lower_bound(newer, code, {}, &Range::last);
  return range != std::end(newer) && code >= range->first ? range->kind : CharClass::other;
}

CharClass look_up(char32_t code) noexcept {
  if (is_space(code)) return CharClass::space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::number;
    case UTF8PROC_CATEGORY_CN:
      return look_up_newer(code);
    default:
      return CharClass::other;
  }
}

constexpr CharClass ascii_class(unsigned char c) noexcept {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharClass::letter;
  if (c >= '0' && c <= '9') return CharClass::number;
  return is_space(c) ? CharClass::space : CharClass::other;
}

constexpr auto ascii_classes = [] {
  std::array<CharClass, 128> table{};
  for (unsigned c = 0; c < 128; ++c) table[c] = ascii_class(static_cast<unsigned char>(c));
  return table;
}();

constexpr Char invalid{0xFFFD, 1, false};

}  // namespace

Char decode_char(std::string_view text, std::size_t at) noexcept {
  if (at >= text.size()) return {};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {static_cast<char32_t>(lead), 1, true};
  if (lead < 0xC2 || lead > 0xF4) return invalid;
  const std::uint8_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() - at < length) return invalid;
  char32_t code = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return invalid;
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return invalid;
  return {code, length, true};
}

CharClass class_of(char32_t code) noexcept { return code < 128 ? ascii_classes[code] : look_up(code); }

ClassifiedChar classify(std::string_view text, std::size_t at) noexcept {
  const Char c = decode_char(text, at);
  return {c, c.valid ? class_of(c.code) : CharClass::other};
}

void append_utf8(char32_t code, std::string& out) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

}  // namespace quern::tokenizer
