#include "quern/base/byte_sizes.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace quern {
namespace {

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string in_unit(std::uint64_t bytes, int decimals) {
  if (bytes < 1024) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  static constexpr std::array units = {" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  const double step = std::pow(10.0, decimals);
  std::size_t unit = 0;
  double value = static_cast<double>(bytes) / 1024;
  while (std::round(value * step) / step >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed, decimals).ptr;
  return std::string(digits.data(), end) + units[unit];
}

}  // namespace

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text.front()))) return {};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{}) return {};
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  int power = 0;
  if (!unit.empty() && !equal_in_any_case(unit, "B")) {
    const std::size_t letter = std::string_view("kmgt").find(static_cast<char>(std::tolower(static_cast<unsigned char>(unit.front()))));
    if (letter == std::string_view::npos) return {};
    unit.remove_prefix(1);
    if (!unit.empty() && !equal_in_any_case(unit, "B") && !equal_in_any_case(unit, "iB")) return {};
    power = static_cast<int>(letter) + 1;
  }
  if (power == 0) {  // a whole number of bytes is exact
    std::uint64_t whole = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (read.ec == std::errc{} && read.ptr == end) return whole <= (std::uint64_t{1} << 63) ? std::optional(whole) : std::nullopt;
  }
  const double bytes = std::ldexp(number, 10 * power);
  if (!(bytes <= 9223372036854775808.0)) return {};
  return static_cast<std::uint64_t>(bytes);
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string byte_words(std::uint64_t bytes) { return in_unit(bytes, 1); }

std::pair<std::string, std::string> byte_words_apart(std::uint64_t one, std::uint64_t other) {
  for (int decimals = 1; decimals <= 3; ++decimals)
    if (std::pair words{in_unit(one, decimals), in_unit(other, decimals)}; one == other || words.first != words.second) return words;
  return {std::to_string(one) + " bytes", std::to_string(other) + " bytes"};
}

}  // namespace quern
