// Blocks with a zero point, of any size: a word with the zero point and the scale, the upper 24 bits of an f32, then the codes.
#pragma once
#include "encode.cuh"

struct ZeroPoint {
  float scale;
  int zero;
};
DEV ZeroPoint zero_point_of(const Blocks& w, i64 block) {
  const u32 head = load_word(w, 0, block);
  return {__uint_as_float(head & ~255u), (int)(head & 255u)};
}

/// x with the upper 24 bits of an f32, to nearest even; below 2^-100 it is 0, so that no inverse overflows. A NaN stays one.
DEV float short_float(float x) {
  if (fabsf(x) < 7.888609e-31f) return 0.0f;
  const u32 bits = __float_as_uint(x);
  return __uint_as_float((x != x ? bits | 0x400000u : bits + 127u + (bits >> 8 & 1u)) & ~255u);
}

/// The head of a warp's block of n elements: the range of the block and 0 is cut into equal steps up to `most`.
template <int n, class Load> DEV ZeroPoint put_zero_point(const Load& load, int most, char* to) {
  const int lane = threadIdx.x & 31;
  float low = 0.0f, high = 0.0f;
  for (int i = lane; i < n; i += 32) {
    const float x = load(i);
    low = fminf(low, x);
    high = fmaxf(high, x);
  }
  low = least_of(low, 32);
  const float scale = short_float((most_of(high, 32) - low) / (float)most);
  const int zero = code_of(-low * inverse_of(scale), 0, most);
  const u32 head = __float_as_uint(scale) | (u32)zero;
  if (lane < 2) put_half(to + 2 * lane, (u16)(head >> 16 * lane));
  return {scale, zero};
}

/// Codes of four bits: byte j of 16 has elements j and j + 16 of 32.
template <int n> struct ZeroPointNibbles {
  enum { sixteens = n / 16 };
  static DEV void decode16(const Blocks& w, i64 block, int s, float* out) {
    const uint4 q = load_codes(w, 1, block, s / 2 * 16);
    const ZeroPoint head = zero_point_of(w, block);
    const int shift = (s & 1) * 4;
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = head.scale * (float)((int)(word_of(q, i / 4) >> ((i & 3) * 8 + shift) & 15) - head.zero);
  }

  /// The block of a warp; load(i) is element i.
  template <class Load> static DEV void encode(const Load& load, char* to) {
    const int lane = threadIdx.x & 31;
    const ZeroPoint head = put_zero_point<n>(load, 15, to);
    const float inverse = inverse_of(head.scale);
    for (int i = 0; i < n; i += 32) put_nibbles(to + 4 + i / 2, code_of(load(i + lane) * inverse + (float)head.zero, 0, 15));
  }
};

/// Codes of eight bits.
template <int n> struct ZeroPointBytes {
  enum { sixteens = n / 16 };
  static DEV void decode16(const Blocks& w, i64 block, int s, float* out) {
    const uint4 q = load_codes(w, 1, block, s * 16);
    const ZeroPoint head = zero_point_of(w, block);
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = head.scale * (float)((int)(word_of(q, i / 4) >> (i & 3) * 8 & 255) - head.zero);
  }

  template <class Load> static DEV void encode(const Load& load, char* to) {
    const ZeroPoint head = put_zero_point<n>(load, 255, to);
    const float inverse = inverse_of(head.scale);
    for (int i = threadIdx.x & 31; i < n; i += 32)
      reinterpret_cast<u8*>(to + 4)[i] = (u8)code_of(load(i) * inverse + (float)head.zero, 0, 255);
  }
};
