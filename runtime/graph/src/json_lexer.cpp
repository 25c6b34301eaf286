// See json_lexer.hpp.
#include "json_lexer.hpp"

#include "utf8_size.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace quern {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// Bytes of a string that stand for themselves, each alone.
constexpr std::array<bool, 256> plain = [] {
  std::array<bool, 256> table{};
  for (unsigned c = 0x20; c < 0x80; ++c) table[c] = c != '"' && c != '\\';
  return table;
}();

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

void append_code(std::string& out, unsigned code) {
  const auto add = [&](unsigned byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xe0 | code >> 12);
    } else {
      add(0xf0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3f));
    }
    add(0x80 | (code >> 6 & 0x3f));
  }
  add(0x80 | (code & 0x3f));
}

/// Whether a number of JSON is so near to 0 that no double holds it, where it is known that none does: its first digit that counts stands
/// behind the point.
bool is_tiny(std::string_view number) noexcept {
  if (number.starts_with('-')) number.remove_prefix(1);
  const std::size_t mark = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, mark);
  std::int64_t exponent = 0;
  if (mark < number.size()) {
    std::string_view power = number.substr(mark + 1);
    const bool is_negative = power.starts_with('-');
    if (is_negative || power.starts_with('+')) power.remove_prefix(1);
    constexpr std::int64_t beyond = std::int64_t{1} << 40;  // more digits than a text has
    if (std::from_chars(power.data(), power.data() + power.size(), exponent).ec != std::errc() || exponent > beyond) exponent = beyond;
    if (is_negative) exponent = -exponent;
  }
  const auto point = static_cast<std::int64_t>(std::min(digits.find('.'), digits.size()));
  const auto first = static_cast<std::int64_t>(std::min(digits.find_first_not_of("0."), digits.size()));
  return (first < point ? point - first : point - first + 1) + exponent <= 0;
}

}  // namespace

JsonLexer::JsonLexer(std::string_view json) noexcept : json_(json) {
  if (json.starts_with(byte_order_mark)) at_ = byte_order_mark.size();
}

JsonLexer::Token JsonLexer::wrong() noexcept {
  place_ = at_;
  return Token::wrong;
}

JsonLexer::Token JsonLexer::next() {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (at_ < json_.size() && is_space(json_[at_])) ++at_;
  place_ = at_;
  if (at_ == json_.size()) return Token::end;
  const auto single = [&](Token token) {
    ++at_;
    return token;
  };
  switch (json_[at_]) {
    case '"': return string();
    case ',': return single(Token::comma);
    case ':': return single(Token::colon);
    case '[': return single(Token::begin_list);
    case ']': return single(Token::end_list);
    case '{': return single(Token::begin_object);
    case '}': return single(Token::end_object);
    case 't': return word("true", Token::truth);
    case 'f': return word("false", Token::falsehood);
    case 'n': return word("null", Token::null);
    default: return json_[at_] == '-' || is_digit(json_[at_]) ? number() : wrong();
  }
}

JsonLexer::Token JsonLexer::word(std::string_view word, Token token) noexcept {
  const std::string_view rest = json_.substr(at_, word.size());
  if (rest == word) {
    at_ += word.size();
    return token;
  }
  at_ += static_cast<std::size_t>(std::ranges::mismatch(rest, word).in1 - rest.begin());
  return wrong();
}

/// Goes to the first byte that ends a string, begins an escape or may not stand in one.
void JsonLexer::pass_plain() noexcept {
  while (at_ < json_.size()) {
    const auto c = static_cast<unsigned char>(json_[at_]);
    if (plain[c]) {
      ++at_;
      continue;
    }
    const std::size_t size = c < 0x80 ? 0 : utf8_size(json_.substr(at_));
    if (size == 0) {
      is_encoding_wrong_ = c >= 0x80;
      return;
    }
    at_ += size;
  }
}

JsonLexer::Token JsonLexer::string() {
  const std::size_t begin = ++at_;
  pass_plain();
  if (peek() == '\\') return string_with_escapes(begin);
  if (peek() != '"') return wrong();
  token_ = json_.substr(begin, at_ - begin);
  ++at_;
  return Token::text;
}

JsonLexer::Token JsonLexer::string_with_escapes(std::size_t begin) {
  unescaped_.assign(json_.substr(begin, at_ - begin));
  while (peek() == '\\') {
    ++at_;
    if (!escape()) return wrong();
    const std::size_t from = at_;
    pass_plain();
    unescaped_.append(json_.substr(from, at_ - from));
  }
  if (peek() != '"') return wrong();
  ++at_;
  token_ = unescaped_;
  return Token::text;
}

/// Behind the backslash.
bool JsonLexer::escape() {
  constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
  const char letter = peek();
  if (letter != 'u') {
    const std::size_t known = at_ < json_.size() ? letters.find(letter) : std::string_view::npos;
    if (known == std::string_view::npos) return false;
    unescaped_ += meanings[known];
    ++at_;
    return true;
  }
  unsigned code = 0, low = 0;
  if (!code_unit(code)) return false;
  if (code >= 0xdc00 && code <= 0xdfff) return false;  // the second half of a pair alone
  if (code >= 0xd800 && code <= 0xdbff) {
    if (peek() != '\\') return false;
    ++at_;
    if (!code_unit(low) || low < 0xdc00 || low > 0xdfff) return false;
    code = 0x10000 + (code - 0xd800) * 0x400 + (low - 0xdc00);
  }
  append_code(unescaped_, code);
  return true;
}

/// "uXXXX"
bool JsonLexer::code_unit(unsigned& unit) noexcept {
  if (peek() != 'u') return false;
  const std::string_view digits = json_.substr(++at_, 4);
  const char* const end = digits.data() + digits.size();
  if (digits.size() < 4 || std::from_chars(digits.data(), end, unit, 16).ptr != end) return false;
  at_ += 4;
  return true;
}

bool JsonLexer::pass_digits() noexcept {
  const std::size_t begin = at_;
  while (is_digit(peek())) ++at_;
  return at_ > begin;
}

JsonLexer::Token JsonLexer::number() {
  const bool is_negative = peek() == '-';
  if (is_negative) ++at_;
  if (peek() == '0') ++at_;
  else if (!pass_digits()) return wrong();
  bool is_whole = true;
  if (peek() == '.') {
    is_whole = false;
    ++at_;
    if (!pass_digits()) return wrong();
  }
  if (peek() == 'e' || peek() == 'E') {
    is_whole = false;
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    if (!pass_digits()) return wrong();
  }
  const std::string_view number = json_.substr(place_, at_ - place_);
  const char *const begin = number.data(), *const end = begin + number.size();
  if (is_whole && !is_negative && std::from_chars(begin, end, count_).ec == std::errc()) return Token::count;
  if (is_whole && is_negative && std::from_chars(begin, end, integer_).ec == std::errc()) return Token::integer;
  fraction_ = 0;
  const std::errc problem = std::from_chars(begin, end, fraction_).ec;
  if (problem != std::errc()) {
    if (!is_tiny(number)) return wrong();
    fraction_ = is_negative ? -0.0 : 0.0;
  }
  return Token::fraction;
}

}  // namespace quern
