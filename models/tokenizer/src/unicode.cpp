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

struct CategoryRange {
  char32_t first, last;
  utf8proc_category_t category;
};

constexpr CategoryRange newer[] = {
#include "newer_categories.inc"
};

CharKind look_up(char32_t code) noexcept {
  if (is_space(code)) return CharKind::space;
  switch (category_of(code)) {
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

int category_of(char32_t code) noexcept {
  const utf8proc_category_t known = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  if (known != UTF8PROC_CATEGORY_CN && known != UTF8PROC_CATEGORY_MN) return known;  // the table has no others
  const auto range = std::ranges::lower_bound(newer, code, {}, &CategoryRange::last);
  return range != std::end(newer) && code >= range->first ? range->category : known;
}

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

std::size_t previous_char(std::string_view text, std::size_t at) noexcept {
  const auto is_continuation = [&](std::size_t i) { return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80; };
  std::size_t start = at - 1;
  while (start > 0 && at - start < 4 && is_continuation(start)) --start;
  return decode_char(text, start).length == at - start ? start : at - 1;
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
