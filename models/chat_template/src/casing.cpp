// Case and character classes, as Python's str methods answer them.
#include "text.hpp"

#include "runtime.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace quern::jinja {

namespace {

struct SpecialCase {
  char32_t code_point;
  const char32_t* upper;
  const char32_t* title;
};

constexpr SpecialCase special_cases[] = {
#include "special_casing.inc"
};

const SpecialCase* find_special(char32_t c) noexcept {
  const auto* row = std::lower_bound(std::begin(special_cases), std::end(special_cases), c,
                                     [](const SpecialCase& s, char32_t value) { return s.code_point < value; });
  return row != std::end(special_cases) && row->code_point == c ? row : nullptr;
}

utf8proc_category_t category(char32_t c) noexcept { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

void append_all(TextBuilder& out, const char32_t* text) {
  for (; *text != 0; ++text) out.put(*text);
}

void append_upper(TextBuilder& out, char32_t c) {
  if (const SpecialCase* row = find_special(c)) return append_all(out, row->upper);
  out.put(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_title(TextBuilder& out, char32_t c) {
  if (const SpecialCase* row = find_special(c)) return append_all(out, row->title);
  out.put(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

bool has_case(char32_t c) noexcept { return is_lower(c) || is_upper(c) || is_title(c); }

// Characters that do not end a word where the form of a capital sigma is decided.
bool is_case_ignorable(char32_t c) noexcept {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: break;
  }
  constexpr std::array<char32_t, 13> marks = {'\'', '.', ':', 0xb7, 0x387, 0x55f, 0x5f4, 0x2018, 0x2019, 0x2024, 0x2027, 0xfe13, 0xfe52};
  return std::find(marks.begin(), marks.end(), c) != marks.end();
}

constexpr char32_t capital_sigma = 0x3a3;

// Sigma at the end of a word takes its final form: a letter before it and none after it.
char32_t lower_sigma(Budget& budget, std::string_view text, std::size_t start, std::size_t end) {
  bool before = false;
  for (std::size_t at = start; at > 0;) {
    budget.step();
    at = previous_offset(text, at);
    std::size_t next = at;
    const char32_t c = next_code_point(text, next);
    if (is_case_ignorable(c)) continue;
    before = has_case(c);
    break;
  }
  bool after = false;
  for (std::size_t at = end; at < text.size();) {
    budget.step();
    const char32_t c = next_code_point(text, at);
    if (is_case_ignorable(c)) continue;
    after = has_case(c);
    break;
  }
  return before && !after ? 0x3c2 : 0x3c3;
}

// `start` and `end` bound the code point inside `text`, which supplies the context for sigma.
void append_lower(TextBuilder& out, std::string_view text, std::size_t start, std::size_t end, char32_t c) {
  if (c == capital_sigma) return out.put(lower_sigma(out.runtime(), text, start, end));
  if (c == 0x130) {  // capital I with a dot: i and a combining dot
    out.put('i');
    return out.put(0x307);
  }
  out.put(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

// Calls body(start, end, code point) for each code point.
template <typename Body>
void for_each(TextBuilder& out, std::string_view text, Body&& body) {
  walk(out.runtime(), text, [&](std::size_t start, std::size_t end, char32_t c) {
    body(start, end, c);
    return true;
  });
}

}  // namespace

bool is_space(char32_t c) noexcept {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || c == 0x2028 || c == 0x2029 || category(c) == UTF8PROC_CATEGORY_ZS;
}

bool is_alphabetic(char32_t c) noexcept {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(char32_t c) noexcept {
  if (category(c) == UTF8PROC_CATEGORY_ND) return true;
  return c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247c) || (c >= 0x2488 && c <= 0x2490) || c == 0x24ea ||
         (c >= 0x24f5 && c <= 0x24fd) || c == 0x24ff || (c >= 0x2776 && c <= 0x277e) || (c >= 0x2780 && c <= 0x2788) ||
         (c >= 0x278a && c <= 0x2792);
}

bool is_numeric(char32_t c) noexcept {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool is_lower(char32_t c) noexcept {
  if (category(c) == UTF8PROC_CATEGORY_LL) return true;
  return c == 0xaa || c == 0xba || (c >= 0x2b0 && c <= 0x2b8) || (c >= 0x2c0 && c <= 0x2c1) || (c >= 0x2e0 && c <= 0x2e4) || c == 0x345 ||
         c == 0x37a || (c >= 0x1d2c && c <= 0x1d6a) || c == 0x1d78 || (c >= 0x1d9b && c <= 0x1dbf) || c == 0x2071 || c == 0x207f ||
         (c >= 0x2090 && c <= 0x209c) || (c >= 0x2170 && c <= 0x217f) || (c >= 0x24d0 && c <= 0x24e9);
}

bool is_upper(char32_t c) noexcept {
  if (category(c) == UTF8PROC_CATEGORY_LU) return true;
  return (c >= 0x2160 && c <= 0x216f) || (c >= 0x24b6 && c <= 0x24cf) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
         (c >= 0x1f170 && c <= 0x1f189);
}

bool is_title(char32_t c) noexcept { return category(c) == UTF8PROC_CATEGORY_LT; }

bool is_printable(char32_t c) noexcept {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return c == ' ';
    default: return true;
  }
}

bool is_identifier_start(char32_t c) noexcept {
  if (c < 0x80) return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return is_alphabetic(c) || category(c) == UTF8PROC_CATEGORY_NL;
}

bool is_identifier_part(char32_t c) noexcept {
  if (c < 0x80) return is_identifier_start(c) || (c >= '0' && c <= '9');
  const auto kind = category(c);
  return is_identifier_start(c) || kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC;
}

void to_upper(TextBuilder& out, std::string_view text) {
  for_each(out, text, [&](std::size_t, std::size_t, char32_t c) { append_upper(out, c); });
}

void to_lower(TextBuilder& out, std::string_view text) {
  for_each(out, text, [&](std::size_t start, std::size_t end, char32_t c) { append_lower(out, text, start, end, c); });
}

void to_title(TextBuilder& out, std::string_view text) {
  bool inside_word = false;
  for_each(out, text, [&](std::size_t start, std::size_t end, char32_t c) {
    if (inside_word) {
      append_lower(out, text, start, end, c);
    } else {
      append_title(out, c);
    }
    inside_word = has_case(c);
  });
}

void capitalize(TextBuilder& out, std::string_view text) {
  for_each(out, text, [&](std::size_t start, std::size_t end, char32_t c) {
    if (start == 0) {
      append_title(out, c);
    } else {
      append_lower(out, text, start, end, c);
    }
  });
}

void swap_case(TextBuilder& out, std::string_view text) {
  for_each(out, text, [&](std::size_t start, std::size_t end, char32_t c) {
    if (is_upper(c)) {
      append_lower(out, text, start, end, c);
    } else if (is_lower(c)) {
      append_upper(out, c);
    } else {
      out.put(c);
    }
  });
}

}  // namespace quern::jinja
