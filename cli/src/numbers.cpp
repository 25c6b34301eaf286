#include "numbers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cctype>
#include <cmath>

namespace quern::cli {
namespace {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::optional<std::uint64_t> parse_count(std::string_view text, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || value > most) return {};
  return value;
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text.front()))) return {};
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{}) return {};
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  int power = 0;
  if (!unit.empty() && !equal_ignoring_case(unit, "B")) {
    const std::size_t letter = std::string_view("kmgt").find(
        static_cast<char>(std::tolower(static_cast<unsigned char>(unit.front()))));
    if (letter == std::string_view::npos) return {};
    unit.remove_prefix(1);
    if (!unit.empty() && !equal_ignoring_case(unit, "B") && !equal_ignoring_case(unit, "iB")) return {};
    power = static_cast<int>(letter) + 1;
  }
  const double bytes = std::ldexp(number, 10 * power);
  if (!(bytes <= 9223372036854775808.0)) return {};
  return static_cast<std::uint64_t>(bytes);
}

std::string with_commas(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string fixed(double value, int decimals) {
  std::array<char, 400> buffer{};
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, decimals);
  return error == std::errc{} ? std::string(buffer.data(), end) : std::string("?");
}

std::string in_mib(std::uint64_t bytes) {
  const auto tenths = static_cast<std::uint64_t>(std::llround(static_cast<double>(bytes) / 104857.6));
  return with_commas(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB";
}

}  // namespace quern::cli
