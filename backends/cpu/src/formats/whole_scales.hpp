// Blocks with an f32 as their scale: its word, then the codes. A scale below 2^-100 is stored as 0, so that no inverse overflows.
#pragma once

#include "codec.hpp"

#include <bit>

namespace quern::cpu {

inline float whole_scale_at(const Byte* block) noexcept { return std::bit_cast<float>(word_at(block)); }

/// Stores the scale of a block and returns what was stored.
inline float put_whole_scale(Byte* block, float scale) noexcept {
  const float stored = std::fabs(scale) < 0x1p-100f ? 0.0f : scale;
  std::memcpy(block, &stored, 4);
  return stored;
}

/// A number of eight bits: sign, four bits of exponent, three of mantissa. As an f16 it lies 2^8 lower.
inline float e4m3_to_float(Byte code) noexcept {
  const int size = code & 0x7f;
  const auto half = static_cast<std::uint16_t>((code & 0x80) << 8 | size << 7 | (size == 0x7f ? 0x7c00 : 0));
  return 256.0f * half_to_float(half);
}

/// To nearest even, cut to +-448.
inline Byte float_to_e4m3(float x) noexcept {
  const Byte sign = std::signbit(x) ? 0x80 : 0;
  const float size = std::fabs(x);
  if (std::isnan(x)) return static_cast<Byte>(sign | 0x7f);
  if (size >= 448.0f) return static_cast<Byte>(sign | 0x7e);
  const int exponent = std::max(static_cast<int>(std::bit_cast<std::uint32_t>(size) >> 23) - 127, -6);
  const int eighths = static_cast<int>(std::nearbyintf(std::ldexp(size, 3 - exponent)));  // 16 carries into the exponent
  return static_cast<Byte>(sign | (((exponent + 7) << 3) + eighths - 8));
}

/// Codes of four bits that stand for the 16 `values`: byte j of 16 has elements j and j + 16 of 32. Encoded: the scale is the largest
/// magnitude, which the table has as 1.
template <int n, const float* values>
struct TableNibbles {
  static void decode(const Byte* b, int part, float* out) noexcept {
    const float d = whole_scale_at(b);
    const Byte* codes = b + 4 + 16 * part;
    for (int i = 0; i < 16; ++i) {
      out[i] = d * values[codes[i] & 15];
      out[i + 16] = d * values[codes[i] >> 4];
    }
  }
  static void encode(const float* x, Byte* b) noexcept {
    const float inverse = inverse_of(put_whole_scale(b, std::fabs(extreme(x, n))));
    for (int i = 0; i < n; i += 32)
      for (int j = 0; j < 16; ++j)
        b[4 + i / 2 + j] = static_cast<Byte>(nearest(x[i + j] * inverse) | (nearest(x[i + j + 16] * inverse) << 4));
  }

 private:
  static int nearest(float x) noexcept {
    int best = 0;
    for (int code = 1; code < 16; ++code)
      if (std::fabs(x - values[code]) < std::fabs(x - values[best])) best = code;
    return best;
  }
};

}  // namespace quern::cpu
