// Tokens inside a tag: numbers, names, strings and operators.
#include "lexer.hpp"

#include "numbers.hpp"
#include "text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace quern::jinja {

namespace {

bool is_decimal(char c) noexcept { return c >= '0' && c <= '9'; }

std::string without_underscores(std::string_view text) {
  std::string out(text);
  std::erase(out, '_');
  return out;
}

}  // namespace

// The end of `digit+ ('_' digit+)*` at `at`, or `at`.
std::size_t Lexer::digits(std::size_t at) const {
  std::size_t end = at;
  while (is_decimal(peek(end)) || (peek(end) == '_' && end > at && is_decimal(peek(end + 1)))) ++end;
  return end;
}

void Lexer::scan_number(Token& token) {
  const std::size_t start = at_;
  std::size_t end = digits(start);
  bool real = false;
  if (start == 0 || source_[start - 1] != '.') {  // 'x.1.5' reads two indices, not a float
    std::size_t tail = end;
    if (peek(tail) == '.' && is_decimal(peek(tail + 1))) {
      tail = digits(tail + 1);
      real = true;
      end = tail;
    }
    if (peek(tail) == 'e' || peek(tail) == 'E') {
      std::size_t exponent = tail + 1;
      if (peek(exponent) == '+' || peek(exponent) == '-') ++exponent;
      if (is_decimal(peek(exponent))) {
        end = digits(exponent);
        real = true;
      }
    }
  }
  if (real) {
    token.kind = TokenKind::real;
    token.real = parse_float(budget_, without_underscores(std::string_view(source_).substr(start, end - start))).value();
    advance(end);
    return;
  }
  int base = 10;
  std::size_t first = start;
  if (source_[start] == '0') {
    const char mark = static_cast<char>(peek(start + 1) | 0x20);
    base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    const auto is_digit_here = [&](char c) {
      const char lower = static_cast<char>(c | 0x20);
      const int value = is_decimal(c) ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
      return value < base;
    };
    if (base != 10) {
      first = start + 2;
      end = first;
      while (is_digit_here(peek(end)) || (peek(end) == '_' && is_digit_here(peek(end + 1)))) ++end;
      if (end == first) fail("a number with the prefix '" + source_.substr(start, 2) + "' has no digits");
    } else {
      const std::size_t other = std::min(source_.find_first_not_of("0_", start), end);
      end = std::max(other, start + 1);  // '007' is 00 and 7
    }
  }
  const std::string text = without_underscores(std::string_view(source_).substr(first, end - first));
  token.kind = TokenKind::integer;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), token.integer, base);
  if (error != std::errc()) {
    fail_at(QUERN_UNSUPPORTED, budget_.template_name(), line_, "the integer " + shown(text) + " is beyond 64 bits");
  }
  advance(end);
}

void Lexer::scan_name(Token& token) {
  std::size_t end = at_;
  while (end < source_.size()) {
    std::size_t next = end;
    if (!is_identifier_part(next_code_point(source_, next))) break;
    end = next;
  }
  token.kind = TokenKind::name;
  token.text = source_.substr(at_, end - at_);
  advance(end);
}

void Lexer::scan_string(Token& token) {
  const char mark = source_[at_];
  std::size_t end = at_ + 1;
  while (end < source_.size() && source_[end] != mark) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) fail(concat("a string that begins with ", mark, " is not closed"));
  token.kind = TokenKind::string;
  token.text = unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
  advance(end + 1);
}

// Python's escapes. A backslash in front of anything else stays.
std::string Lexer::unescape(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  const auto put = [&](std::uint32_t value) {
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
      fail("a string holds the escape of a code point that is not a character");
    }
    append_code_point(out, value);
  };
  std::size_t i = 0;
  while (i < text.size()) {
    if (text[i] != '\\') {
      out += text[i++];
      continue;
    }
    const std::size_t escape = i + 1;  // always inside: a string cannot end in a lone backslash
    const char c = text[escape];
    i = escape + 1;
    constexpr std::string_view letters = "\\'\"abfnrtv";
    constexpr std::string_view values = "\\'\"\a\b\f\n\r\t\v";
    if (c == '\n') continue;
    if (const std::size_t index = letters.find(c); index != std::string_view::npos) {
      out += values[index];
    } else if (c >= '0' && c <= '7') {
      std::uint32_t value = 0;
      for (i = escape; i < text.size() && i < escape + 3 && text[i] >= '0' && text[i] <= '7'; ++i) {
        value = value * 8 + static_cast<std::uint32_t>(text[i] - '0');
      }
      put(value);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t length = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const std::string_view hex = text.substr(i, length);
      std::uint32_t value = 0;
      const auto [stop, error] = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
      if (hex.size() < length || error != std::errc() || stop != hex.data() + hex.size()) {
        fail(concat("a string holds the escape '\\", c, "' without its ", length, " hexadecimal digits"));
      }
      put(value);
      i += length;
    } else if (c == 'N') {
      fail_at(QUERN_UNSUPPORTED, budget_.template_name(), line_, "escapes by character name ('\\N{...}') are not offered; use '\\u'");
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      // Jinja first spells the character as an escape, whose own backslash then meets this one.
      i = escape;
      const char32_t code_point = next_code_point(text, i);
      std::array<char, 16> spelled{};
      const char* form = code_point < 0x100 ? "\\x%02x" : code_point < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(spelled.data(), spelled.size(), form, static_cast<unsigned>(code_point));
      out += spelled.data();
    } else {
      out += '\\';
      out += c;
    }
  }
  return out;
}

void Lexer::scan_operation(Token& token) {
  constexpr std::array<std::string_view, 6> pairs = {"//", "**", "==", "!=", ">=", "<="};
  constexpr std::string_view singles = "+-/*%~[](){}><=.:|,;";
  token.kind = TokenKind::operation;
  for (const std::string_view pair : pairs) {
    if (starts(at_, pair)) {
      token.text = pair;
      advance(at_ + 2);
      return;
    }
  }
  std::size_t end = at_;
  next_code_point(source_, end);
  const std::string text = source_.substr(at_, end - at_);
  const char c = source_[at_];
  if (singles.find(c) == std::string_view::npos) fail("unexpected character " + quote(text));
  if (c == '(') open_ += ')';
  if (c == '[') open_ += ']';
  if (c == '{') open_ += '}';
  if (c == ')' || c == ']' || c == '}') {
    if (open_.empty()) fail("unexpected '" + text + "'");
    if (open_.back() != c) fail("unexpected '" + text + "', expected '" + open_.back() + "'");
    open_.pop_back();
  }
  token.text = text;
  advance(end);
}

}  // namespace quern::jinja
