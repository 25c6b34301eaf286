// Blocks with an f32 as their scale: its word, then the codes. A scale below 2^-100 is stored as 0, so that no inverse overflows.
#pragma once
#include "encode.cuh"

// Those of quern_formats.h.
static __device__ const float nf4_values[16] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
    -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f,
    0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};
static __device__ const float fp4_values[16] = {
    0.0f, 0.0052083334885537624f, 0.6666666865348816f, 1.0f, 0.3333333432674408f, 0.5f, 0.1666666716337204f, 0.25f,
    -0.0f, -0.0052083334885537624f, -0.6666666865348816f, -1.0f, -0.3333333432674408f, -0.5f, -0.1666666716337204f, -0.25f};

DEV float whole_scale_of(const Blocks& w, i64 block) { return __uint_as_float(load_word(w, 0, block)); }

/// The scale of a warp's block of n elements: the largest magnitude over `most`.
template <int n, class Load> DEV float put_whole_scale(const Load& load, float most, char* to) {
  const int lane = threadIdx.x & 31;
  float largest = 0.0f;
  for (int i = lane; i < n; i += 32) largest = fmaxf(largest, fabsf(load(i)));
  float scale = most_of(largest, 32) / most;
  if (scale < 7.888609e-31f) scale = 0.0f;
  if (lane < 2) put_half(to + 2 * lane, (u16)(__float_as_uint(scale) >> 16 * lane));
  return scale;
}

struct SignedBytes {
  enum { sixteens = 8 };
  static DEV void decode16(const Blocks& w, i64 block, int s, float* out) {
    const uint4 q = load_codes(w, 1, block, s * 16);
    const float d = whole_scale_of(w, block);
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = d * (float)(i8)(word_of(q, i / 4) >> (i & 3) * 8);
  }
  template <class Load> static DEV void encode(const Load& load, char* to) {
    const float inverse = inverse_of(put_whole_scale<128>(load, 127.0f, to));
    for (int i = threadIdx.x & 31; i < 128; i += 32) reinterpret_cast<i8*>(to + 4)[i] = (i8)code_of(load(i) * inverse, -127, 127);
  }
};

/// A number of eight bits: sign, four bits of exponent, three of mantissa. As an f16 it lies 2^8 lower.
DEV float from_e4m3(u32 code) {
  const u32 size = code & 0x7f;
  return 256.0f * from_half((u16)((code & 0x80) << 8 | size << 7 | (size == 0x7f ? 0x7c00u : 0u)));
}
/// To nearest even, cut to +-448.
DEV u8 to_e4m3(float x) {
  const u32 bits = __float_as_uint(x), sign = bits >> 24 & 0x80;
  const float size = fabsf(x);
  if (x != x) return (u8)(sign | 0x7f);
  if (size >= 448.0f) return (u8)(sign | 0x7e);
  const int exponent = max((int)(bits >> 23 & 255) - 127, -6);
  const int eighths = __float2int_rn(size * __uint_as_float((u32)(130 - exponent) << 23));  // 16 carries into the exponent
  return (u8)(sign | (u32)((exponent + 7) * 8 + eighths - 8));
}

struct SmallFloats {
  enum { sixteens = 8 };
  static DEV void decode16(const Blocks& w, i64 block, int s, float* out) {
    const uint4 q = load_codes(w, 1, block, s * 16);
    const float d = whole_scale_of(w, block);
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = d * from_e4m3(word_of(q, i / 4) >> (i & 3) * 8 & 255);
  }
  template <class Load> static DEV void encode(const Load& load, char* to) {
    const float inverse = inverse_of(put_whole_scale<128>(load, 448.0f, to));
    for (int i = threadIdx.x & 31; i < 128; i += 32) reinterpret_cast<u8*>(to + 4)[i] = to_e4m3(load(i) * inverse);
  }
};

/// Codes of four bits that stand for the 16 `values`: byte j of 16 has elements j and j + 16 of 32.
template <int n, const float* values> struct TableNibbles {
  enum { sixteens = n / 16 };
  static DEV void decode16(const Blocks& w, i64 block, int s, float* out) {
    const uint4 q = load_codes(w, 1, block, s / 2 * 16);
    const float d = whole_scale_of(w, block);
    const int shift = (s & 1) * 4;
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = d * values[word_of(q, i / 4) >> ((i & 3) * 8 + shift) & 15];
  }
  template <class Load> static DEV void encode(const Load& load, char* to) {
    const int lane = threadIdx.x & 31;
    const float inverse = inverse_of(put_whole_scale<n>(load, 1.0f, to));
    for (int i = 0; i < n; i += 32) {
      const float x = load(i + lane) * inverse;
      int best = 0;
      for (int code = 1; code < 16; ++code)
        if (fabsf(x - values[code]) < fabsf(x - values[best])) best = code;
      put_nibbles(to + 4 + i / 2, best);
    }
  }
};
