// Numbers of eight bits: a sign, four bits of exponent with a bias of 7, three of mantissa; 0x7f is no number.
#pragma once

#include "quern/sdk/host_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace quern::quantize {

inline constexpr float largest_e4m3 = 448;

/// As an f16, E4M3 lies 2^8 lower.
inline float from_e4m3(unsigned code) noexcept {
  const unsigned size = code & 0x7fu;
  return 256.0f * sdk::from_f16(static_cast<std::uint16_t>((code & 0x80u) << 8 | size << 7 | (size == 0x7fu ? 0x7c00u : 0u)));
}

/// Of a finite number: to nearest, ties to even, cut to the largest.
inline std::uint8_t to_e4m3(float x) noexcept {
  const float size = std::min(std::fabs(x), largest_e4m3);
  const int exponent = size < 0x1p-6f ? -6 : std::ilogb(size);
  const int eighths = static_cast<int>(std::nearbyint(std::ldexp(size, 3 - exponent)));  // 16 goes on into the exponent
  return static_cast<std::uint8_t>((std::signbit(x) ? 0x80 : 0) | ((exponent + 6) * 8 + eighths));
}

}  // namespace quern::quantize
