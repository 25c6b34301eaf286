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
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

struct Range {
  char32_t first, last;
  CharKind kind;
};

// Characters of Unicode 15.1 and 16, which utf8proc 2.8 does not know yet. Sorted.
constexpr Range newer[] = {
    {0x897, 0x897, CharKind::mark},
    {0x1B4E, 0x1B4F, CharKind::punctuation},
    {0x1B7F, 0x1B7F, CharKind::punctuation},
    {0x1C89, 0x1C89, CharKind::upper},
    {0x1C8A, 0x1C8A, CharKind::lower},
    {0xA7CB, 0xA7CC, CharKind::upper},
    {0xA7CD, 0xA7CD, CharKind::lower},
    {0xA7DA, 0xA7DA, CharKind::upper},
    {0xA7DB, 0xA7DB, CharKind::lower},
    {0xA7DC, 0xA7DC, CharKind::upper},
    {0x105C0, 0x105F3, CharKind::caseless},
    {0x10D40, 0x10D49, CharKind::number},
    {0x10D4A, 0x10D4F, CharKind::caseless},
    {0x10D50, 0x10D65, CharKind::upper},
    {0x10D69, 0x10D6D, CharKind::mark},
    {0x10D6E, 0x10D6E, CharKind::punctuation},
    {0x10D6F, 0x10D6F, CharKind::caseless},
    {0x10D70, 0x10D85, CharKind::lower},
    {0x10EC2, 0x10EC4, CharKind::caseless},
    {0x10EFC, 0x10EFC, CharKind::mark},
    {0x11380, 0x11389, CharKind::caseless},
    {0x1138B, 0x1138B, CharKind::caseless},
    {0x1138E, 0x1138E, CharKind::caseless},
    {0x11390, 0x113B5, CharKind::caseless},
    {0x113B7, 0x113B7, CharKind::caseless},
    {0x113B8, 0x113C0, CharKind::mark},
    {0x113C2, 0x113C2, CharKind::mark},
    {0x113C5, 0x113C5, CharKind::mark},
    {0x113C7, 0x113CA, CharKind::mark},
    {0x113CC, 0x113D0, CharKind::mark},
    {0x113D1, 0x113D1, CharKind::caseless},
    {0x113D2, 0x113D2, CharKind::mark},
    {0x113D3, 0x113D3, CharKind::caseless},
    {0x113D4, 0x113D5, CharKind::punctuation},
    {0x113D7, 0x113D8, CharKind::punctuation},
    {0x113E1, 0x113E2, CharKind::mark},
    {0x116D0, 0x116E3, CharKind::number},
    {0x11BC0, 0x11BE0, CharKind::caseless},
    {0x11BE1, 0x11BE1, CharKind::punctuation},
    {0x11BF0, 0x11BF9, CharKind::number},
    {0x11F5A, 0x11F5A, CharKind::mark},
    {0x13460, 0x143FA, CharKind::caseless},
    {0x16100, 0x1611D, CharKind::caseless},
    {0x1611E, 0x1612F, CharKind::mark},
    {0x16130, 0x16139, CharKind::number},
    {0x16D40, 0x16D6C, CharKind::caseless},
    {0x16D6D, 0x16D6F, CharKind::punctuation},
    {0x16D70, 0x16D79, CharKind::number},
    {0x18CFF, 0x18CFF, CharKind::caseless},
    {0x1CCF0, 0x1CCF9, CharKind::number},
    {0x1E5D0, 0x1E5ED, CharKind::caseless},
    {0x1E5EE, 0x1E5EF, CharKind::mark},
    {0x1E5F0, 0x1E5F0, CharKind::caseless},
    {0x1E5F1, 0x1E5FA, CharKind::number},
    {0x1E5FF, 0x1E5FF, CharKind::punctuation},
    {0x2EBF0, 0x2EE5D, CharKind::caseless},
};

CharKind look_up_newer(char32_t code) noexcept {
  const auto range = std::ranges::lower_bound(newer, code, {}, &Range::last);
  return range != std::end(newer) && code >= range->first ? range->kind : CharKind::other;
}

CharKind look_up(char32_t code) noexcept {
  if (is_space(code)) return CharKind::space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT: return CharKind::upper;
    case UTF8PROC_CATEGORY_LL: return CharKind::lower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return CharKind::caseless;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return CharKind::mark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return CharKind::number;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return CharKind::punctuation;
    case UTF8PROC_CATEGORY_CN: return look_up_newer(code);
    default: return CharKind::other;
  }
}

CharClass class_of(CharKind kind) noexcept {
  switch (kind) {
    case CharKind::upper:
    case CharKind::lower:
    case CharKind::caseless: return CharClass::letter;
    case CharKind::number: return CharClass::number;
    case CharKind::space: return CharClass::space;
    default: return CharClass::other;
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

CharClass class_of(char32_t code) noexcept { return code < 128 ? ascii_classes[code] : class_of(look_up(code)); }
CharKind kind_of(char32_t code) noexcept { return look_up(code); }

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
