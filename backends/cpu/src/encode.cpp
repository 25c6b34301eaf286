// f32 to block formats. The rule of each format, in f32, with every code chosen against the scale as it is stored:
//
//   q8_0        d = max|x| / 127
//   q4_0, q5_0  d = x* / -8 (-16), x* the element of largest magnitude, so that it is met exactly
//   q4_1, q5_1  d = (max - min) / 15 (31), m = min
//   q4_k, q5_k  each 32: scale = (max - min(min, 0)) / 15 (31) and -min(min, 0), in units of the largest / 63
//   q6_k        each 16: scale = x* / -32, in units of the one of largest magnitude / -128
// Codes round to nearest and are cut to their range. A NaN or infinity makes its block NaN or infinite: d is stored as it comes.
#include "formats.hpp"

#include "half.hpp"

#include "quern/quern_formats.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quern::cpu {
namespace {

using Byte = std::uint8_t;

/// Stores x as f16 and returns what was stored.
float put_scale(Byte* at, float x) noexcept {
  const std::uint16_t h = float_to_half(x);
  std::memcpy(at, &h, 2);
  return half_to_float(h);
}

/// Nearest integer to x * inverse + shift in [low, high]; a NaN gives low.
int code_of(float x, float inverse, float shift, int low, int high) noexcept {
  const float c = std::nearbyintf(x * inverse + shift);
  if (!(c > static_cast<float>(low))) return low;
  return c >= static_cast<float>(high) ? high : static_cast<int>(c);
}

float inverse_of(float d) noexcept { return d == 0.0f ? 0.0f : 1.0f / d; }

/// The element of largest magnitude, with its sign; NaN if there is one.
float extreme(const float* x, int n) noexcept {
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
Range range_of(const float* x, int n) noexcept {
  Range r{x[0], x[0]};
  for (int i = 0; i < n; ++i) {
    if (std::isnan(x[i])) return {x[i], x[i]};
    r.low = std::min(r.low, x[i]);
    r.high = std::max(r.high, x[i]);
  }
  return r;
}

void q8_0(const float* x, Byte* b) noexcept {
  const float d = put_scale(b, std::fabs(extreme(x, 32)) / 127.0f), inverse = inverse_of(d);
  for (int i = 0; i < 32; ++i) b[2 + i] = static_cast<Byte>(static_cast<std::int8_t>(code_of(x[i], inverse, 0.0f, -127, 127)));
}

void q4_0(const float* x, Byte* b) noexcept {
  const float d = put_scale(b, extreme(x, 32) / -8.0f), inverse = inverse_of(d);
  for (int i = 0; i < 16; ++i)
    b[2 + i] = static_cast<Byte>(code_of(x[i], inverse, 8.0f, 0, 15) | (code_of(x[i + 16], inverse, 8.0f, 0, 15) << 4));
}

void q4_1(const float* x, Byte* b) noexcept {
  const Range r = range_of(x, 32);
  const float d = put_scale(b, (r.high - r.low) / 15.0f), m = put_scale(b + 2, r.low), inverse = inverse_of(d);
  for (int i = 0; i < 16; ++i)
    b[4 + i] = static_cast<Byte>(code_of(x[i] - m, inverse, 0.0f, 0, 15) | (code_of(x[i + 16] - m, inverse, 0.0f, 0, 15) << 4));
}

/// Nibbles at `low`, fifth bits in the 32-bit word at `high`.
template <typename Code>
void five_bits(Byte* low, Byte* high, const Code& code) noexcept {
  std::uint32_t bits = 0;
  for (int i = 0; i < 16; ++i) {
    const int a = code(i), c = code(i + 16);
    low[i] = static_cast<Byte>((a & 15) | ((c & 15) << 4));
    bits |= (static_cast<std::uint32_t>(a >> 4) << i) | (static_cast<std::uint32_t>(c >> 4) << (i + 16));
  }
  std::memcpy(high, &bits, 4);
}

void q5_0(const float* x, Byte* b) noexcept {
  const float d = put_scale(b, extreme(x, 32) / -16.0f), inverse = inverse_of(d);
  five_bits(b + 6, b + 2, [&](int i) { return code_of(x[i], inverse, 16.0f, 0, 31); });
}

void q5_1(const float* x, Byte* b) noexcept {
  const Range r = range_of(x, 32);
  const float d = put_scale(b, (r.high - r.low) / 31.0f), m = put_scale(b + 2, r.low), inverse = inverse_of(d);
  five_bits(b + 8, b + 4, [&](int i) { return code_of(x[i] - m, inverse, 0.0f, 0, 31); });
}

/// Scales and minima of Q4_K and Q5_K: bytes 0 to 15 of the block, and per sub-block what a decoder will see.
void super_scales(const float* x, float levels, Byte* b, float (&scale)[8], float (&minimum)[8]) noexcept {
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

void q4_k(const float* x, Byte* b) noexcept {
  float scale[8], minimum[8];
  super_scales(x, 15.0f, b, scale, minimum);
  for (int j = 0; j < 8; j += 2)
    for (int i = 0; i < 32; ++i) {
      const int low = code_of(x[32 * j + i] + minimum[j], inverse_of(scale[j]), 0.0f, 0, 15);
      const int high = code_of(x[32 * j + 32 + i] + minimum[j + 1], inverse_of(scale[j + 1]), 0.0f, 0, 15);
      b[16 + 16 * j + i] = static_cast<Byte>(low | (high << 4));
    }
}

void q5_k(const float* x, Byte* b) noexcept {
  float scale[8], minimum[8];
  super_scales(x, 31.0f, b, scale, minimum);
  std::fill_n(b + 16, 32, Byte{0});
  for (int j = 0; j < 8; j += 2)
    for (int i = 0; i < 32; ++i) {
      const int low = code_of(x[32 * j + i] + minimum[j], inverse_of(scale[j]), 0.0f, 0, 31);
      const int high = code_of(x[32 * j + 32 + i] + minimum[j + 1], inverse_of(scale[j + 1]), 0.0f, 0, 31);
      b[48 + 16 * j + i] = static_cast<Byte>((low & 15) | ((high & 15) << 4));
      b[16 + i] = static_cast<Byte>(b[16 + i] | ((low >> 4) << j) | ((high >> 4) << (j + 1)));
    }
}

void q6_k(const float* x, Byte* b) noexcept {
  float scale[16];
  for (int g = 0; g < 16; ++g) scale[g] = extreme(x + 16 * g, 16) / -32.0f;
  const float d = put_scale(b + 208, extreme(scale, 16) / -128.0f), inverse = inverse_of(d);
  std::fill_n(b, 192, Byte{0});
  for (int g = 0; g < 16; ++g) {
    const int s = code_of(scale[g], inverse, 0.0f, -128, 127);
    b[192 + g] = static_cast<Byte>(static_cast<std::int8_t>(s));
    const float step_inverse = inverse_of(d * static_cast<float>(s));
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      const int code = code_of(x[i], step_inverse, 32.0f, 0, 63), h = i >> 7, n = (i >> 6) & 1, p = (i >> 5) & 1, l = i & 31;
      b[64 * h + 32 * p + l] = static_cast<Byte>(b[64 * h + 32 * p + l] | ((code & 15) << (4 * n)));
      b[128 + 32 * h + l] = static_cast<Byte>(b[128 + 32 * h + l] | ((code >> 4) << (4 * n + 2 * p)));
    }
  }
}

}  // namespace

void encode_blocks(quern_dtype dtype, const float* in, std::int64_t count, std::byte* blocks) noexcept {
  void (*encode)(const float*, Byte*) noexcept = nullptr;
  switch (dtype) {
    case QUERN_Q4_0: encode = q4_0; break;
    case QUERN_Q4_1: encode = q4_1; break;
    case QUERN_Q5_0: encode = q5_0; break;
    case QUERN_Q5_1: encode = q5_1; break;
    case QUERN_Q8_0: encode = q8_0; break;
    case QUERN_Q4_K: encode = q4_k; break;
    case QUERN_Q5_K: encode = q5_k; break;
    case QUERN_Q6_K: encode = q6_k; break;
    default: return;  // not reached: dtypes are checked when a plan is compiled
  }
  const quern_format* format = find_format(dtype);
  auto* b = reinterpret_cast<Byte*>(blocks);
  for (std::int64_t i = 0; i < count; i += format->block_elements, b += format->block_bytes) encode(in + i, b);
}

}  // namespace quern::cpu
