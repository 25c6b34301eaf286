#include "yaml_scalar.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace quern::cli {
namespace {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

std::size_t digits_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  return end - at;
}

/// [-+]? ( . digits | digits ( . digits? )? ) ( [eE] [-+]? digits )?
bool is_decimal(std::string_view text, bool& whole) {
  std::size_t at = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const std::size_t before = digits_at(text, at);
  at += before;
  whole = true;
  std::size_t behind = 0;
  if (at < text.size() && text[at] == '.') {
    whole = false;
    behind = digits_at(text, ++at);
    at += behind;
  }
  if (before + behind == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    whole = false;
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    const std::size_t exponent = digits_at(text, at);
    if (exponent == 0) return false;
    at += exponent;
  }
  return at == text.size();
}

std::optional<std::string> of_base(std::string_view digits, int base) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (digits.empty() || problem != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return std::to_string(value);
}

/// Without a plus and leading zeros, which JSON does not take.
std::string whole_number(std::string_view text) {
  const bool negative = text[0] == '-';
  text.remove_prefix(text[0] == '-' || text[0] == '+' ? 1 : 0);
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size() - 1));
  return (negative && text != "0" ? "-" : "") + std::string(text);
}

}  // namespace

std::optional<std::string> yaml_word(std::string_view text, bool& out_of_range) {
  out_of_range = false;
  if (text.empty() || is_one_of(text, {"~", "null", "Null", "NULL"})) return "null";
  if (is_one_of(text, {"true", "True", "TRUE"})) return "true";
  if (is_one_of(text, {"false", "False", "FALSE"})) return "false";
  if (text.starts_with("0x")) return of_base(text.substr(2), 16);
  if (text.starts_with("0o")) return of_base(text.substr(2), 8);
  const std::string_view unsigned_text = text.substr(text[0] == '-' || text[0] == '+' ? 1 : 0);
  if (is_one_of(unsigned_text, {".inf", ".Inf", ".INF"}) || is_one_of(text, {".nan", ".NaN", ".NAN"})) {
    out_of_range = true;
    return std::nullopt;
  }
  bool whole = false;
  if (!is_decimal(text, whole)) return std::nullopt;
  if (whole && unsigned_text.size() <= 18) return whole_number(text);
  const std::string_view for_chars = text.substr(text[0] == '+' ? 1 : 0);
  if (std::uint64_t exact = 0; whole) {  // beyond 18 digits: exact where it fits
    const auto [end, problem] = std::from_chars(for_chars.data(), for_chars.data() + for_chars.size(), exact);
    if (problem == std::errc() && end == for_chars.data() + for_chars.size()) return std::to_string(exact);
  }
  double value = 0;
  const std::errc problem = std::from_chars(for_chars.data(), for_chars.data() + for_chars.size(), value).ec;
  if (problem != std::errc()) {
    out_of_range = true;
    return std::nullopt;
  }
  char out[32];
  return std::string(out, std::to_chars(out, out + sizeof out, value).ptr);
}

}  // namespace quern::cli
