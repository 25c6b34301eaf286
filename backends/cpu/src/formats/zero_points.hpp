// Blocks with a zero point, of any size: a word with the zero point and the scale, the upper 24 bits of an f32, then the codes. Encoded: the
// range of the block and 0 is cut into equal steps, and the zero point is the code next to 0.
#pragma once

#include "codec.hpp"

#include <bit>

namespace quern::cpu {

struct ZeroPoint {
  float scale;
  int zero;
};

inline ZeroPoint zero_point_at(const Byte* block) noexcept {
  const std::uint32_t head = word_at(block);
  return {std::bit_cast<float>(head & ~255u), static_cast<int>(head & 255u)};
}

/// x with the upper 24 bits of an f32, to nearest even; below 2^-100 it is 0, so that no inverse overflows. A NaN stays one.
inline float short_float(float x) noexcept {
  if (std::fabs(x) < 0x1p-100f) return 0.0f;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((std::isnan(x) ? bits | 0x400000u : bits + 127u + ((bits >> 8) & 1u)) & ~255u);
}

/// Stores the head of a block of n elements and returns it; codes go up to `most`.
inline ZeroPoint put_zero_point(const float* x, int n, int most, Byte* block) noexcept {
  const Range r = range_of(x, n);
  const float low = std::min(r.low, 0.0f), scale = short_float((std::max(r.high, 0.0f) - low) / static_cast<float>(most));
  const int zero = code_of(-low, inverse_of(scale), 0.0f, 0, most);
  const std::uint32_t head = std::bit_cast<std::uint32_t>(scale) | static_cast<std::uint32_t>(zero);
  std::memcpy(block, &head, 4);
  return {scale, zero};
}

/// Codes of four bits: byte j of 16 has elements j and j + 16 of 32.
template <int n>
struct ZeroPointNibbles {
  static void decode(const Byte* b, int part, float* out) noexcept {
    const auto [d, zero] = zero_point_at(b);
    const Byte* codes = b + 4 + 16 * part;
    for (int i = 0; i < 16; ++i) {
      out[i] = d * static_cast<float>((codes[i] & 15) - zero);
      out[i + 16] = d * static_cast<float>((codes[i] >> 4) - zero);
    }
  }
  static void encode(const float* x, Byte* b) noexcept {
    const auto [d, zero] = put_zero_point(x, n, 15, b);
    const float inverse = inverse_of(d), shift = static_cast<float>(zero);
    for (int i = 0; i < n; i += 32)
      for (int j = 0; j < 16; ++j) {
        const int low = code_of(x[i + j], inverse, shift, 0, 15), high = code_of(x[i + j + 16], inverse, shift, 0, 15);
        b[4 + i / 2 + j] = static_cast<Byte>(low | (high << 4));
      }
  }
};

/// Codes of eight bits.
template <int n>
struct ZeroPointBytes {
  static void decode(const Byte* b, int part, float* out) noexcept {
    const auto [d, zero] = zero_point_at(b);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(b[4 + 32 * part + i] - zero);
  }
  static void encode(const float* x, Byte* b) noexcept {
    const auto [d, zero] = put_zero_point(x, n, 255, b);
    const float inverse = inverse_of(d), shift = static_cast<float>(zero);
    for (int i = 0; i < n; ++i) b[4 + i] = static_cast<Byte>(code_of(x[i], inverse, shift, 0, 255));
  }
};

}  // namespace quern::cpu
