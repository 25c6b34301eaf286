// Decoding of block formats: 16 consecutive elements of a block as f32, with one rounding at most.
//
// In every format 16 consecutive elements are 16 bytes of codes, or one nibble of 16 bytes. `s` counts sixteens in a block.
#pragma once
#include "prelude.cuh"

DEV uint4 load_codes(const Blocks& w, int piece, i64 block, int offset) {
  const char* p = at<const char>(w.plane[piece]) + block * w.stride[piece] + offset;
  return w.aligned ? *reinterpret_cast<const uint4*>(p) : load_pairs(p);
}
DEV u32 load_word(const Blocks& w, int piece, i64 block) {
  const char* p = at<const char>(w.plane[piece]) + block * w.stride[piece];
  if (w.aligned) return *reinterpret_cast<const u32*>(p);
  const u16* h = reinterpret_cast<const u16*>(p);
  return h[0] | (u32)h[1] << 16;
}
DEV float load_scale(const Blocks& w, int piece, i64 block, int half) {
  return from_half(reinterpret_cast<const u16*>(at<const char>(w.plane[piece]) + block * w.stride[piece])[half]);
}

/// 6-bit scale and minimum of group g of the 12 bytes in header words y, z, w.
DEV void k_scales(const uint4& header, int g, int& scale, int& minimum) {
  const int shift = (g & 3) * 8;
  const u32 a = header.y >> shift, b = header.z >> shift, c = header.w >> shift;
  if (g < 4) {
    scale = a & 63;
    minimum = b & 63;
  } else {
    scale = (c & 15) | ((a >> 6 & 3) << 4);
    minimum = (c >> 4 & 15) | ((b >> 6 & 3) << 4);
  }
}

template <int F> struct Format;
template <> struct Format<F32> {
  enum { sixteens = 1 };
  static DEV void decode16(const Blocks& w, i64 block, int, float* out) {
    const float* p = reinterpret_cast<const float*>(at<const char>(w.plane[0]) + block * w.stride[0]);
    for (int i = 0; i < 16; ++i) out[i] = p[i];
  }
};
template <> struct Format<F16> {
  enum { sixteens = 1 };
  static DEV void decode16(const Blocks& w, i64 block, int, float* out) {
    const uint4* p = reinterpret_cast<const uint4*>(at<const char>(w.plane[0]) + block * w.stride[0]);
    const uint4 v[2] = {p[0], p[1]};
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = from_half((u16)(word_of(v[i / 8], i / 2 % 4) >> (i & 1) * 16));
  }
};
template <> struct Format<BF16> {
  enum { sixteens = 1 };
  static DEV void decode16(const Blocks& w, i64 block, int, float* out) {
    const uint4* p = reinterpret_cast<const uint4*>(at<const char>(w.plane[0]) + block * w.stride[0]);
    const uint4 v[2] = {p[0], p[1]};
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = from_bf16((u16)(word_of(v[i / 8], i / 2 % 4) >> (i & 1) * 16));
  }
};
template <> struct Format<Q4_0> {
  enum { sixteens = 2 };
  static DEV void decode16(const Blocks& w, i64 block, int s, float* out) {
    const uint4 q = load_codes(w, 1, block, 0);
    const float d = load_scale(w, 0, block, 0);
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = d * ((int)(word_of(q, i / 4) >> ((i & 3) * 8 + s * 4) & 15) - 8);
  }
};
template <> struct Format<Q4_1> {
  enum { sixteens = 2 };
  static DEV void decode16(const Blocks& w, i64 block, int s, float* out) {
    const uint4 q = load_codes(w, 1, block, 0);
    const float d = load_scale(w, 0, block, 0), m = load_scale(w, 0, block, 1);
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = fmaf(d, (float)(word_of(q, i / 4) >> ((i & 3) * 8 + s * 4) & 15), m);
  }
};
template <> struct Format<Q5_0> {
  enum { sixteens = 2 };
  static DEV void decode16(const Blocks& w, i64 block, int s, float* out) {
    const uint4 q = load_codes(w, 1, block, 0);
    const u32 h = load_word(w, 2, block) >> s * 16;
    const float d = load_scale(w, 0, block, 0);
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = d * ((int)((word_of(q, i / 4) >> ((i & 3) * 8 + s * 4) & 15) | (h >> i & 1) << 4) - 16);
  }
};
template <> struct Format<Q5_1> {
  enum { sixteens = 2 };
  static DEV void decode16(const Blocks& w, i64 block, int s, float* out) {
    const uint4 q = load_codes(w, 1, block, 0);
    const u32 h = load_word(w, 2, block) >> s * 16;
    const float d = load_scale(w, 0, block, 0), m = load_scale(w, 0, block, 1);
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = fmaf(d, (float)((word_of(q, i / 4) >> ((i & 3) * 8 + s * 4) & 15) | (h >> i & 1) << 4), m);
  }
};
template <> struct Format<Q8_0> {
  enum { sixteens = 2 };
  static DEV void decode16(const Blocks& w, i64 block, int s, float* out) {
    const uint4 q = load_codes(w, 1, block, s * 16);
    const float d = load_scale(w, 0, block, 0);
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = d * (float)(i8)(word_of(q, i / 4) >> (i & 3) * 8);
  }
};
template <> struct Format<Q4_K> {
  enum { sixteens = 16 };
  static DEV void decode16(const Blocks& w, i64 block, int s, float* out) {
    const uint4 header = *reinterpret_cast<const uint4*>(at<const char>(w.plane[0]) + block * w.stride[0]);
    const int pair = s / 4, high = s / 2 & 1, half = s & 1;
    const uint4 q = *reinterpret_cast<const uint4*>(at<const char>(w.plane[1]) + block * w.stride[1] + pair * 32 + half * 16);
    int scale, minimum;
    k_scales(header, s / 2, scale, minimum);
    const float d = from_half((u16)header.x) * scale, m = from_half((u16)(header.x >> 16)) * minimum;
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = fmaf(d, (float)(word_of(q, i / 4) >> ((i & 3) * 8 + high * 4) & 15), -m);
  }
};
template <> struct Format<Q5_K> {
  enum { sixteens = 16 };
  static DEV void decode16(const Blocks& w, i64 block, int s, float* out) {
    const uint4 header = *reinterpret_cast<const uint4*>(at<const char>(w.plane[0]) + block * w.stride[0]);
    const int pair = s / 4, high = s / 2 & 1, half = s & 1;
    const uint4 q = *reinterpret_cast<const uint4*>(at<const char>(w.plane[1]) + block * w.stride[1] + pair * 32 + half * 16);
    const uint4 h = *reinterpret_cast<const uint4*>(at<const char>(w.plane[2]) + block * w.stride[2] + half * 16);
    int scale, minimum;
    k_scales(header, s / 2, scale, minimum);
    const float d = from_half((u16)header.x) * scale, m = from_half((u16)(header.x >> 16)) * minimum;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const u32 low = word_of(q, i / 4) >> ((i & 3) * 8 + high * 4) & 15, top = word_of(h, i / 4) >> ((i & 3) * 8 + s / 2) & 1;
      out[i] = fmaf(d, (float)(low | top << 4), -m);
    }
  }
};
template <> struct Format<Q6_K> {
  enum { sixteens = 16 };
  static DEV void decode16(const Blocks& w, i64 block, int s, float* out) {
    const int n = s / 8, high = s / 4 & 1, g = s / 2 & 1, half = s & 1;
    const uint4 q = load_codes(w, 1, block, n * 64 + g * 32 + half * 16);
    const uint4 h = load_codes(w, 2, block, n * 32 + half * 16);
    const float d = load_scale(w, 0, block, 0) * (at<const i8>(w.plane[3]) + block * w.stride[3])[s];
    const int shift = 2 * (2 * high + g);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int low = word_of(q, i / 4) >> ((i & 3) * 8 + high * 4) & 15, top = word_of(h, i / 4) >> ((i & 3) * 8 + shift) & 3;
      out[i] = d * (float)((low | top << 4) - 32);
    }
  }
};

#include "further_formats.cuh"  // those of format_<format>.cuh

/// Any format, chosen when the kernel runs: CALL(FORMAT) runs in its case.
#define FORMAT_CASE(FORMAT) \
  case FORMAT: CALL(FORMAT); break;
#define FORMAT_LAST(FORMAT) \
  default: CALL(FORMAT); break;
#define FURTHER_CASE(FORMAT, elements) FORMAT_CASE(FORMAT)
#define FAST_FORMAT_CASES QUERN_CUDA_FAST_FORMATS(FORMAT_CASE, FORMAT_LAST)
#define BLOCK_FORMAT_CASES FURTHER_FORMATS(FURTHER_CASE) FAST_FORMAT_CASES
#define ANY_FORMAT_CASES FORMAT_CASE(F32) FORMAT_CASE(F16) FORMAT_CASE(BF16) BLOCK_FORMAT_CASES

/// `sixteen` counts from the start of the matrix.
DEV void decode16(const Blocks& w, i64 sixteen, float* out) {
  switch (w.dtype) {
#define CALL(FORMAT) Format<FORMAT>::decode16(w, sixteen / Format<FORMAT>::sixteens, (int)(sixteen % Format<FORMAT>::sixteens), out)
    ANY_FORMAT_CASES
#undef CALL
  }
}
