// Block formats to f32 in portable code: one function a format, one block a call.
//
// Layouts are those of quern_formats.h; tests hold each function to the descriptor there. In every product the factors have so
// few bits (f16 has 11, a sub-scale at most 8, a code at most 8) that f32 holds it exactly, so only the addition of a minimum rounds.
#include "formats.hpp"

#include "half.hpp"

#include "quern/quern_formats.h"

#include <algorithm>
#include <cstring>

namespace quern::cpu {
namespace {

using Byte = std::uint8_t;

float scale_at(const Byte* p) noexcept {
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  return half_to_float(h);
}

std::uint32_t word_at(const Byte* p) noexcept {
  std::uint32_t w;
  std::memcpy(&w, p, 4);
  return w;
}

void q4_0(const Byte* b, float* out) noexcept {
  const float d = scale_at(b);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((b[2 + i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((b[2 + i] >> 4) - 8);
  }
}

void q4_1(const Byte* b, float* out) noexcept {
  const float d = scale_at(b), m = scale_at(b + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(b[4 + i] & 15) + m;
    out[i + 16] = d * static_cast<float>(b[4 + i] >> 4) + m;
  }
}

void q5_0(const Byte* b, float* out) noexcept {
  const float d = scale_at(b);
  const std::uint32_t high = word_at(b + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * (static_cast<float>((b[6 + i] & 15) | (((high >> i) & 1u) << 4)) - 16.0f);
    out[i + 16] = d * (static_cast<float>((b[6 + i] >> 4) | (((high >> (i + 16)) & 1u) << 4)) - 16.0f);
  }
}

void q5_1(const Byte* b, float* out) noexcept {
  const float d = scale_at(b), m = scale_at(b + 2);
  const std::uint32_t high = word_at(b + 4);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((b[8 + i] & 15) | (((high >> i) & 1u) << 4)) + m;
    out[i + 16] = d * static_cast<float>((b[8 + i] >> 4) | (((high >> (i + 16)) & 1u) << 4)) + m;
  }
}

void q8_0(const Byte* b, float* out) noexcept {
  const float d = scale_at(b);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<std::int8_t>(b[2 + i]));
}

/// 6-bit scale and minimum of sub-block j of Q4_K and Q5_K, from the 12 bytes that hold eight of each.
void sub_scales(const Byte* s, int j, float& scale, float& minimum) noexcept {
  if (j < 4) {
    scale = static_cast<float>(s[j] & 63);
    minimum = static_cast<float>(s[j + 4] & 63);
  } else {
    scale = static_cast<float>((s[j + 4] & 15) | ((s[j - 4] >> 6) << 4));
    minimum = static_cast<float>((s[j + 4] >> 4) | ((s[j] >> 6) << 4));
  }
}

void q4_k(const Byte* b, float* out) noexcept {
  const float d = scale_at(b), dm = scale_at(b + 2);
  for (int j = 0; j < 8; ++j) {
    float scale, minimum;
    sub_scales(b + 4, j, scale, minimum);
    scale *= d;
    minimum *= dm;
    const Byte* codes = b + 16 + (j / 2) * 32;
    const int shift = (j & 1) * 4;
    for (int i = 0; i < 32; ++i) out[j * 32 + i] = scale * static_cast<float>((codes[i] >> shift) & 15) - minimum;
  }
}

void q5_k(const Byte* b, float* out) noexcept {
  const float d = scale_at(b), dm = scale_at(b + 2);
  for (int j = 0; j < 8; ++j) {
    float scale, minimum;
    sub_scales(b + 4, j, scale, minimum);
    scale *= d;
    minimum *= dm;
    const Byte *high = b + 16, *codes = b + 48 + (j / 2) * 32;
    const int shift = (j & 1) * 4;
    for (int i = 0; i < 32; ++i) {
      const int code = ((codes[i] >> shift) & 15) | (((high[i] >> j) & 1) << 4);
      out[j * 32 + i] = scale * static_cast<float>(code) - minimum;
    }
  }
}

void q6_k(const Byte* b, float* out) noexcept {
  const float d = scale_at(b + 208);
  for (int i = 0; i < 256; ++i) {
    // Element i = 128 h + 64 n + 32 p + l: low bits in byte 64 h + 32 p + l, nibble n; high bits in byte 32 h + l, pair 2 n + p.
    const int h = i >> 7, n = (i >> 6) & 1, p = (i >> 5) & 1, l = i & 31;
    const int low = (b[64 * h + 32 * p + l] >> (4 * n)) & 15, high = (b[128 + 32 * h + l] >> (4 * n + 2 * p)) & 3;
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(b[192 + i / 16]));
    out[i] = scale * static_cast<float>((low | (high << 4)) - 32);
  }
}

constexpr quern_format format_of(quern_dtype dtype) {
  for (const quern_format& format : quern_formats)
    if (format.id == dtype) return format;
  throw "no such format";  // decode_blocks() does not compile then
}

template <quern_dtype Dtype, void (*Decode)(const Byte*, float*) noexcept>
void decode_all(const Byte* blocks, std::int64_t count, float* out) noexcept {
  constexpr std::int64_t elements = format_of(Dtype).block_elements, bytes = format_of(Dtype).block_bytes;
  std::int64_t i = 0;
  for (; i + elements <= count; i += elements, blocks += bytes) Decode(blocks, out + i);
  if (i < count) {
    float last[elements];
    Decode(blocks, last);
    std::copy_n(last, count - i, out + i);
  }
}

}  // namespace

const quern_format* find_format(quern_dtype dtype) noexcept {
  for (const quern_format& format : quern_formats)
    if (format.id == dtype) return &format;
  return nullptr;
}

void decode_blocks(quern_dtype dtype, const std::byte* blocks, std::int64_t count, float* out) noexcept {
  const auto* b = reinterpret_cast<const Byte*>(blocks);
  switch (dtype) {
    case QUERN_Q4_0: return decode_all<QUERN_Q4_0, q4_0>(b, count, out);
    case QUERN_Q4_1: return decode_all<QUERN_Q4_1, q4_1>(b, count, out);
    case QUERN_Q5_0: return decode_all<QUERN_Q5_0, q5_0>(b, count, out);
    case QUERN_Q5_1: return decode_all<QUERN_Q5_1, q5_1>(b, count, out);
    case QUERN_Q8_0: return decode_all<QUERN_Q8_0, q8_0>(b, count, out);
    case QUERN_Q4_K: return decode_all<QUERN_Q4_K, q4_k>(b, count, out);
    case QUERN_Q5_K: return decode_all<QUERN_Q5_K, q5_k>(b, count, out);
    case QUERN_Q6_K: return decode_all<QUERN_Q6_K, q6_k>(b, count, out);
    default: std::fill_n(out, count, 0.0f);  // not reached: dtypes are checked when a plan is compiled
  }
}

}  // namespace quern::cpu
