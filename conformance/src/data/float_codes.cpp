// See float_codes.hpp.
#include "data/float_codes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace quern::conformance {
namespace {

/// |x| rounded to a format with `digits` significant bits and least exponent `least` (of its smallest subnormal), as its
/// integer code: subnormals, then normals, are consecutive integers. Larger than `infinity` becomes `infinity`.
std::uint32_t magnitude_code(double x, int digits, int least, std::uint32_t infinity) noexcept {
  if (x == 0.0) return 0;
  if (std::isinf(x)) return infinity;
  const int exponent = std::max(std::ilogb(x) - (digits - 1), least);  // of one unit in the last place
  const double units = std::nearbyint(std::ldexp(x, -exponent));       // ties to even: the default rounding mode
  const auto steps = static_cast<std::uint64_t>(units) + (static_cast<std::uint64_t>(exponent - least) << (digits - 1));
  return steps >= infinity ? infinity : static_cast<std::uint32_t>(steps);
}

double magnitude_value(std::uint32_t code, int digits, int least) noexcept {
  const std::uint32_t fraction = code & ((1u << (digits - 1)) - 1);
  const std::uint32_t exponent = code >> (digits - 1);
  if (exponent == 0) return std::ldexp(fraction, least);
  return std::ldexp(fraction + (1u << (digits - 1)), least + static_cast<int>(exponent) - 1);
}

double signed_value(std::uint16_t bits, int digits, int least, std::uint32_t infinity) noexcept {
  const std::uint32_t code = bits & 0x7fffu;
  const double size = code > infinity    ? std::numeric_limits<double>::quiet_NaN()
                      : code == infinity ? std::numeric_limits<double>::infinity()
                                         : magnitude_value(code, digits, least);
  return (bits & 0x8000u) != 0 ? -size : size;
}

std::uint16_t signed_bits(double x, int digits, int least, std::uint32_t infinity) noexcept {
  const std::uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
  const std::uint32_t quiet = infinity | 1u << (digits - 2);
  return static_cast<std::uint16_t>(sign | (std::isnan(x) ? quiet : magnitude_code(std::fabs(x), digits, least, infinity)));
}

}  // namespace

double f16_value(std::uint16_t bits) noexcept {
  static const std::vector<double> all = [] {
    std::vector<double> values(0x10000);
    for (std::uint32_t b = 0; b < values.size(); ++b) values[b] = signed_value(static_cast<std::uint16_t>(b), 11, -24, 0x7c00);
    return values;
  }();
  return all[bits];
}
std::uint16_t f16_bits(double x) noexcept { return signed_bits(x, 11, -24, 0x7c00); }
double bf16_value(std::uint16_t bits) noexcept { return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16)); }
std::uint16_t bf16_bits(double x) noexcept { return signed_bits(x, 8, -133, 0x7f80); }

}  // namespace quern::conformance
