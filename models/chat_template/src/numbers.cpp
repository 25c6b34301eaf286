// Built on to_chars and from_chars, which know no locale and round exactly.
#include "numbers.hpp"

#include "text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace quern::jinja {

namespace {

bool is_digit_of_ten(char c) noexcept { return c >= '0' && c <= '9'; }

// Removes underscores that stand between two characters for which `is_digit` holds; empty if one stands
// elsewhere.
template <typename Predicate>
std::optional<std::string> drop_underscores(std::string_view text, Predicate is_digit) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  return out;
}

std::string lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return out;
}

std::string not_finite(double value) { return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

// The largest double has 309 digits in front of the point.
std::string with_to_chars(double value, std::chars_format format, int decimals) {
  std::string out(static_cast<std::size_t>(decimals) + 330, '\0');
  const auto result = std::to_chars(out.data(), out.data() + out.size(), value, format, decimals);
  out.resize(static_cast<std::size_t>(result.ptr - out.data()));
  return out;
}

}  // namespace

std::string format_float(double value) {
  if (!std::isfinite(value)) return not_finite(value);
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<std::size_t>(result.ptr - buffer));
  std::string out;
  if (text.front() == '-') {
    out = "-";
    text.remove_prefix(1);
  }
  const std::size_t mark = text.find('e');
  int exponent = 0;
  const std::string_view exponent_text = text.substr(mark + (text[mark + 1] == '+' ? 2 : 1));
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  std::string digits(1, text[0]);
  if (mark > 2) digits += text.substr(2, mark - 2);
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    const std::string magnitude = std::to_string(std::abs(exponent));
    return out + (exponent < 0 ? "e-" : "e+") + (magnitude.size() < 2 ? "0" : "") + magnitude;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  out += digits.substr(0, whole) + ".";
  return out + (digits.size() > whole ? digits.substr(whole) : "0");
}

std::optional<double> parse_float(Budget& budget, std::string_view text) {
  text = strip_left(budget, strip_right(budget, text));
  budget.step_text(text.size());
  const Charge room(budget, 4 * text.size());  // two copies, each while it grows
  const std::optional<std::string> plain = drop_underscores(text, is_digit_of_ten);
  if (!plain) return std::nullopt;
  std::string_view body = *plain;
  const bool negative = !body.empty() && body.front() == '-';
  if (!body.empty() && (body.front() == '-' || body.front() == '+')) body.remove_prefix(1);
  const std::string name = lower_ascii(body);
  double value = 0;
  if (name == "inf" || name == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (name == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (body.empty() || !(is_digit_of_ten(body.front()) || body.front() == '.')) return std::nullopt;
    const auto [stop, error] = std::from_chars(body.data(), body.data() + body.size(), value);
    if (stop != body.data() + body.size() || error == std::errc::invalid_argument) return std::nullopt;
    if (error == std::errc::result_out_of_range) {
      const std::size_t mark = name.find('e');
      const std::string_view mantissa = std::string_view(name).substr(0, mark);
      const bool tiny = mark != std::string::npos ? name[mark + 1] == '-' : mantissa.find_first_not_of("0") == mantissa.find('.');
      value = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    }
  }
  return negative ? -value : value;
}

std::optional<ParsedInteger> parse_integer(Budget& budget, std::string_view text, int base) {
  text = strip_left(budget, strip_right(budget, text));
  budget.step_text(text.size());
  const Charge room(budget, 5 * text.size());  // three copies, one while it grows
  const bool negative = !text.empty() && text.front() == '-';
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  std::string digits = lower_ascii(text);
  bool had_prefix = false;
  if (digits.size() > 1 && digits[0] == '0') {
    const int prefix = digits[1] == 'x' ? 16 : digits[1] == 'o' ? 8 : digits[1] == 'b' ? 2 : 0;
    if (prefix != 0 && (base == 0 || base == prefix)) {
      base = prefix;
      had_prefix = true;
      digits.erase(0, digits[2] == '_' ? 3 : 2);
    }
  }
  if (base == 0) {
    if (!had_prefix && digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of("0_") != std::string::npos) {
      return std::nullopt;
    }
    base = 10;
  }
  const auto value_of = [](char c) { return is_digit_of_ten(c) ? c - '0' : c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99; };
  const auto is_digit_here = [&](char c) { return value_of(c) < base; };
  const std::optional<std::string> plain = drop_underscores(digits, is_digit_here);
  if (!plain || plain->empty() || !std::all_of(plain->begin(), plain->end(), is_digit_here)) return std::nullopt;
  ParsedInteger parsed;
  const std::string signed_text = (negative ? "-" : "") + *plain;
  const auto result = std::from_chars(signed_text.data(), signed_text.data() + signed_text.size(), parsed.value, base);
  parsed.beyond_64_bits = result.ec == std::errc::result_out_of_range;
  return parsed;
}

double round_decimal(double value, int digits) {
  if (!std::isfinite(value) || digits > 330) return value;
  if (digits < -330) return std::copysign(0.0, value);
  if (digits >= 0) {
    const std::string text = with_to_chars(value, std::chars_format::fixed, digits);
    double rounded = value;
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return rounded;
  }
  const double unit = std::pow(10.0, -digits);
  return std::nearbyint(value / unit) * unit;
}

std::string format_fixed(double value, int decimals) {
  return std::isfinite(value) ? with_to_chars(value, std::chars_format::fixed, decimals) : not_finite(value);
}

std::string format_scientific(double value, int decimals) {
  return std::isfinite(value) ? with_to_chars(value, std::chars_format::scientific, decimals) : not_finite(value);
}

std::string format_general(double value, int digits) {
  return std::isfinite(value) ? with_to_chars(value, std::chars_format::general, digits) : not_finite(value);
}

}  // namespace quern::jinja
