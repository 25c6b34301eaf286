// Numbers to text and back, as Python does it and whatever the locale.
#pragma once

#include "budget.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern::jinja {

/// repr() of a float: the shortest text that reads back as the same value.
std::string format_float(double value);

/// float(text): whitespace around, underscores between digits, inf and nan. Empty if Python raises
/// ValueError.
std::optional<double> parse_float(Budget& budget, std::string_view text);

struct ParsedInteger {
  std::int64_t value = 0;
  bool beyond_64_bits = false;  ///< well formed, but too large
};
/// int(text, base), base 0 or 2 to 36. Empty if Python raises ValueError.
std::optional<ParsedInteger> parse_integer(Budget& budget, std::string_view text, int base);

/// round(value, digits): to the nearest decimal, halves (of the exact binary value) to even.
double round_decimal(double value, int digits);

/// value with this many decimals, in plain notation (%f), or as d.ddde+XX (%e).
std::string format_fixed(double value, int decimals);
std::string format_scientific(double value, int decimals);
/// The shorter of the two with this many significant digits, without trailing zeros (%g).
std::string format_general(double value, int digits);

}  // namespace quern::jinja
