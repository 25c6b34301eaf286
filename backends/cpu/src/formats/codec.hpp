// What a file of a block format defines, and what these files share. A format is one file here: <format>.cpp.
//
// Layouts are those of quern_formats.h; tests hold each decoder to the descriptor there. In every product the factors have so few bits
// (f16 has 11, a sub-scale at most 8, a code at most 8) that f32 holds it exactly, so only the addition of a minimum rounds.
// An encoder chooses every code against the scale as it is stored: to nearest, cut to its range. A NaN or infinity makes its block NaN or
// infinite: d is stored as it comes.
#pragma once

#include "../half.hpp"

#include "quern/quern_formats.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quern::cpu {

using Byte = std::uint8_t;

struct BlockCodec {
  void (*decode)(const Byte* block, int part, float* out) noexcept;  // elements 32 part .. 32 part + 31
  void (*encode)(const float* in, Byte* block) noexcept;
};
#define QUERN_CPU_CODEC(FORMAT, format, with) extern const BlockCodec format##_codec;
QUERN_EACH_FORMAT(QUERN_CPU_CODEC, )
#undef QUERN_CPU_CODEC

inline float scale_at(const Byte* p) noexcept {
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  return half_to_float(h);
}

inline std::uint32_t word_at(const Byte* p) noexcept {
  std::uint32_t w;
  std::memcpy(&w, p, 4);
  return w;
}

/// 6-bit scale and minimum of sub-block j of Q4_K and Q5_K, from the 12 bytes that hold eight of each.
inline void sub_scales(const Byte* s, int j, float& scale, float& minimum) noexcept {
  if (j < 4) {
    scale = static_cast<float>(s[j] & 63);
    minimum = static_cast<float>(s[j + 4] & 63);
  } else {
    scale = static_cast<float>((s[j + 4] & 15) | ((s[j - 4] >> 6) << 4));
    minimum = static_cast<float>((s[j + 4] >> 4) | ((s[j] >> 6) << 4));
  }
}

/// Stores x as f16 and returns what was stored.
inline float put_scale(Byte* at, float x) noexcept {
  const std::uint16_t h = float_to_half(x);
  std::memcpy(at, &h, 2);
  return half_to_float(h);
}

/// Nearest integer to x * inverse + shift in [low, high]; a NaN gives low.
inline int code_of(float x, float inverse, float shift, int low, int high) noexcept {
  const float c = std::nearbyintf(x * inverse + shift);
  if (!(c > static_cast<float>(low))) return low;
  return c >= static_cast<float>(high) ? high : static_cast<int>(c);
}

inline float inverse_of(float d) noexcept { return d == 0.0f ? 0.0f : 1.0f / d; }

/// The element of largest magnitude, with its sign; NaN if there is one.
inline float extreme(const float* x, int n) noexcept {
  float best = 0.0f;
  for (int i = 0; i < n; ++i) {
    if (std::isnan(x[i])) return x[i];
    if (std::fabs(x[i]) > std::fabs(best)) best = x[i];
  }
  return best;
}

struct Range {
  float low, high;
};
inline Range range_of(const float* x, int n) noexcept {
  Range r{x[0], x[0]};
  for (int i = 0; i < n; ++i) {
    if (std::isnan(x[i])) return {x[i], x[i]};
    r.low = std::min(r.low, x[i]);
    r.high = std::max(r.high, x[i]);
  }
  return r;
}

/// Nibbles at `low`, fifth bits in the 32-bit word at `high`.
template <typename Code>
inline void five_bits(Byte* low, Byte* high, const Code& code) noexcept {
  std::uint32_t bits = 0;
  for (int i = 0; i < 16; ++i) {
    const int a = code(i), c = code(i + 16);
    low[i] = static_cast<Byte>((a & 15) | ((c & 15) << 4));
    bits |= (static_cast<std::uint32_t>(a >> 4) << i) | (static_cast<std::uint32_t>(c >> 4) << (i + 16));
  }
  std::memcpy(high, &bits, 4);
}

/// Scales and minima of Q4_K and Q5_K: bytes 0 to 15 of the block, and per sub-block what a decoder will see.
inline void super_scales(const float* x, float levels, Byte* b, float (&scale)[8], float (&minimum)[8]) noexcept {
  for (int j = 0; j < 8; ++j) {
    const Range r = range_of(x + 32 * j, 32);
    minimum[j] = r.low < 0.0f ? -r.low : (std::isnan(r.low) ? r.low : 0.0f);
    scale[j] = (r.high + minimum[j]) / levels;
  }
  const float d = put_scale(b, std::max(0.0f, extreme(scale, 8)) / 63.0f), dm = put_scale(b + 2, extreme(minimum, 8) / 63.0f);
  const float inverse = inverse_of(d), inverse_m = inverse_of(dm);
  Byte* s = b + 4;
  std::fill_n(s, 12, Byte{0});
  for (int j = 0; j < 8; ++j) {
    const int a = code_of(scale[j], inverse, 0.0f, 0, 63), m = code_of(minimum[j], inverse_m, 0.0f, 0, 63);
    if (j < 4) {
      s[j] = static_cast<Byte>(s[j] | a);
      s[j + 4] = static_cast<Byte>(s[j + 4] | m);
    } else {
      s[j + 4] = static_cast<Byte>((a & 15) | ((m & 15) << 4));
      s[j - 4] = static_cast<Byte>(s[j - 4] | ((a >> 4) << 6));
      s[j] = static_cast<Byte>(s[j] | ((m >> 4) << 6));
    }
    scale[j] = d * static_cast<float>(a);
    minimum[j] = dm * static_cast<float>(m);
  }
}

}  // namespace quern::cpu
