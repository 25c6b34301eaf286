// Products of block formats with int8 activations by dp4a: what a lane loads of a row, unpacks and sums.
#pragma once
#include "blocks.cuh"

/// What a lane loads of one item of one row: 64 weights of a K format (two groups whose codes share 32 bytes), else a block of 32.
struct Raw {
  uint4 codes, more;    // `more`: the second 16 bytes of codes
  uint4 header;         // of Q4_K and Q5_K
  uint4 high, high_more;  // high bits of Q5_K and Q6_K
  u32 scales;           // d and m; d
  u32 sub;              // high bits of Q5_0 and Q5_1; the four sub-scales of Q6_K
};

template <int F> struct Item {  // bytes of a block's pieces in their planes
  enum { k = F == Q4_K || F == Q5_K || F == Q6_K, elements = k ? 64 : 32, blocks = k ? 8 : 32 };  // blocks that a warp takes at a time
  enum { grouped = 0, with_scale = 1 };  // of formats of group_dot.cuh: items, which are their blocks here, that share a scale
  enum { scales = F == Q4_K ? 144 : F == Q5_K ? 176 : F == Q4_1 || F == Q5_1 ? 4 : 2 };
  enum { codes = F == Q4_K ? 144 : F == Q5_K ? 176 : F == Q6_K ? 128 : F == Q8_0 ? 32 : 16 };
  enum { high = F == Q5_K ? 176 : F == Q6_K ? 64 : 4 };
};

/// Where a lane's items of one row are. Its place in a block of 256 is the same in all of them.
struct Place {
  const char *scales, *codes, *high, *sub;
};
template <bool SHARED> DEV uint4 load16(const char* p) { return SHARED ? *reinterpret_cast<const uint4*>(p) : load_stream(p); }
/// The item `step` turns of the warp behind the first.
/// SHARED: from shared memory.
template <int F, bool SHARED> DEV Raw load(const Place& p, int step) {
  typedef Item<F> S;
  const int blocks = step * S::blocks;
  Raw r;
  r.codes = load16<SHARED>(p.codes + blocks * S::codes);
  if (S::k || S::codes == 32) r.more = load16<SHARED>(p.codes + blocks * S::codes + 16);
  if (F == Q4_K || F == Q5_K) r.header = load16<SHARED>(p.scales + blocks * S::scales);
  if (F == Q5_K || F == Q6_K) {
    r.high = load16<SHARED>(p.high + blocks * S::high);
    r.high_more = load16<SHARED>(p.high + blocks * S::high + 16);
  }
  if (F == Q6_K) {
    const u16* s = reinterpret_cast<const u16*>(p.sub + blocks * 16);
    r.sub = s[0] | (u32)s[2] << 16;
  }
  if (F == Q4_1 || F == Q5_1 || S::grouped) r.scales = *reinterpret_cast<const u32*>(p.scales + blocks * S::scales);
  if (F == Q4_0 || F == Q5_0 || F == Q8_0 || F == Q6_K) r.scales = *reinterpret_cast<const u16*>(p.scales + blocks * S::scales);
  if (F == Q5_0 || F == Q5_1) r.sub = *reinterpret_cast<const u32*>(p.high + blocks * S::high);
  return r;
}

DEV int dot16(const uint4& a, const uint4& b, int s) {
  s = __dp4a((int)a.x, (int)b.x, s);
  s = __dp4a((int)a.y, (int)b.y, s);
  s = __dp4a((int)a.z, (int)b.z, s);
  return __dp4a((int)a.w, (int)b.w, s);
}
#ifndef QUERN_EMULATED_CARD
/// The bytes of a, unsigned, times those of b, signed.
DEV int dp4a_unsigned(u32 a, u32 b, int sum) {
  int r;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(sum));
  return r;
}
/// Four bytes of the eight of low and high, by the nibbles of the lower half of `which`: one above 7 asks for the sign of byte n - 8 in all bits.
DEV u32 picked(u32 low, u32 high, u32 which) {
  u32 r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(low), "r"(high), "r"(which));
  return r;
}
#endif
DEV int dot16_unsigned(const uint4& a, u32 mask, const uint4& b, int s) {
  s = dp4a_unsigned(a.x & mask, b.x, s);
  s = dp4a_unsigned(a.y & mask, b.y, s);
  s = dp4a_unsigned(a.z & mask, b.z, s);
  return dp4a_unsigned(a.w & mask, b.w, s);
}
/// Byte `which` of v as a float: 2^23 more than it is, less 2^23.
DEV float byte_of(u32 v, int which) { return __uint_as_float(__byte_perm(v, 0x4b000000u, 0x7440 + which)) - 8388608.0f; }

DEV uint4 low_nibbles(const uint4& v) { return make_uint4(v.x & 0x0f0f0f0f, v.y & 0x0f0f0f0f, v.z & 0x0f0f0f0f, v.w & 0x0f0f0f0f); }
DEV uint4 high_nibbles(const uint4& v) {
  return make_uint4(v.x >> 4 & 0x0f0f0f0f, v.y >> 4 & 0x0f0f0f0f, v.z >> 4 & 0x0f0f0f0f, v.w >> 4 & 0x0f0f0f0f);
}
/// v with bit `bit` of each byte of h as bit 4.
DEV uint4 with_bit(const uint4& v, const uint4& h, int bit) {
  return make_uint4(v.x | (h.x >> bit & 0x01010101) << 4, v.y | (h.y >> bit & 0x01010101) << 4, v.z | (h.z >> bit & 0x01010101) << 4,
                    v.w | (h.w >> bit & 0x01010101) << 4);
}
/// Four times (a code of six bits less 32), as signed bytes: nibbles of v shifted left by `nibble` (2, or -2: the high ones), bits of h by
/// `bits` to the top of their byte.
DEV u32 six_bits(u32 v, u32 h, int nibble, int bits) {
  return (((nibble > 0 ? v << 2 : v >> 2) & 0x3c3c3c3c) | (h << bits & 0xc0c0c0c0)) ^ 0x80808080;
}
DEV uint4 six_bits(const uint4& v, const uint4& h, int nibble, int bits) {
  return make_uint4(six_bits(v.x, h.x, nibble, bits), six_bits(v.y, h.y, nibble, bits), six_bits(v.z, h.z, nibble, bits),
                    six_bits(v.w, h.w, nibble, bits));
}
/// Bits 0..15 of h, one a byte, as bit 4 of each byte.
DEV u32 spread4(u32 h) { return (h & 1) << 4 | (h & 2) << 11 | (h & 4) << 18 | (h & 8) << 25; }
DEV uint4 with_spread(const uint4& v, u32 h) {
  return make_uint4(v.x | spread4(h), v.y | spread4(h >> 4), v.z | spread4(h >> 8), v.w | spread4(h >> 12));
}

/// One item's activations: codes of its elements in the order of its nibbles, and the meta of its groups.
struct Input {
  uint4 q[4];
  float2 m[2];  // scale, sum of codes
};
template <int F> DEV Input load_input(const i8* codes, const float2* meta) {
  const uint4* q = reinterpret_cast<const uint4*>(codes);
  Input x;
  x.q[0] = q[0];
  x.q[1] = q[1];
  x.m[0] = meta[0];
  if (Item<F>::k) {  // low nibbles, then high ones: 32 elements on, or 64 for Q6_K
    const int apart = F == Q6_K ? 2 : 1;
    x.q[2] = q[2 * apart];
    x.q[3] = q[2 * apart + 1];
    x.m[1] = meta[apart];
  }
  return x;
}

/// The dot products of an item with T rows of activations. Codes are unpacked once.
template <int F, int T> DEV void item_dot(const Raw& r, const Input* x, int lane, float* acc) {
  if (F == Q4_K || F == Q5_K) {
    const int pair = lane & 3, shift = (pair & 1) * 16;
    uint4 a0 = low_nibbles(r.codes), a1 = low_nibbles(r.more), b0 = high_nibbles(r.codes), b1 = high_nibbles(r.more);
    if (F == Q5_K) {
      a0 = with_bit(a0, r.high, 2 * pair);
      a1 = with_bit(a1, r.high_more, 2 * pair);
      b0 = with_bit(b0, r.high, 2 * pair + 1);
      b1 = with_bit(b1, r.high_more, 2 * pair + 1);
    }
    const u32 y = r.header.y >> shift, z = r.header.z >> shift, w = r.header.w >> shift;
    const u32 scales = pair < 2 ? y & 0x3f3f : (w & 0x0f0f) | (y >> 2 & 0x3030);
    const u32 minima = pair < 2 ? z & 0x3f3f : (w >> 4 & 0x0f0f) | (z >> 2 & 0x3030);
    const float d = from_half((u16)r.header.x), m = from_half((u16)(r.header.x >> 16));
    const int sa = scales & 0xff, sb = scales >> 8;
    const float ma = (float)(minima & 0xff), mb = (float)(minima >> 8);
#pragma unroll
    for (int t = 0; t < T; ++t) {
      const float fa = (float)(sa * dot16(a0, x[t].q[0], dot16(a1, x[t].q[1], 0))),
                  fb = (float)(sb * dot16(b0, x[t].q[2], dot16(b1, x[t].q[3], 0)));
      const float least = fmaf(ma, x[t].m[0].x * x[t].m[0].y, mb * (x[t].m[1].x * x[t].m[1].y));
      acc[t] = fmaf(d, fmaf(fa, x[t].m[0].x, fb * x[t].m[1].x), fmaf(-m, least, acc[t]));
    }
  } else if (F == Q6_K) {
    const int g = (lane & 1) * 2;
    const uint4 a0 = six_bits(r.codes, r.high, 2, 6 - g), a1 = six_bits(r.more, r.high_more, 2, 6 - g);
    const uint4 b0 = six_bits(r.codes, r.high, -2, 2 - g), b1 = six_bits(r.more, r.high_more, -2, 2 - g);
    const float d = 0.25f * from_half((u16)r.scales);
    const int s0 = (i8)r.sub, s1 = (i8)(r.sub >> 8), s2 = (i8)(r.sub >> 16), s3 = (i8)(r.sub >> 24);
#pragma unroll
    for (int t = 0; t < T; ++t) {
      const float fa = (float)(s0 * dot16(a0, x[t].q[0], 0) + s1 * dot16(a1, x[t].q[1], 0));
      const float fb = (float)(s2 * dot16(b0, x[t].q[2], 0) + s3 * dot16(b1, x[t].q[3], 0));
      acc[t] = fmaf(d, fmaf(fa, x[t].m[0].x, fb * x[t].m[1].x), acc[t]);
    }
  } else {
    uint4 a, b;
    if (F == Q8_0) {
      a = r.codes;
      b = r.more;
    } else {
      a = low_nibbles(r.codes);
      b = high_nibbles(r.codes);
      if (F == Q5_0 || F == Q5_1) {
        a = with_spread(a, r.sub);
        b = with_spread(b, r.sub >> 16);
      }
    }
    const float d = from_half((u16)r.scales);
    const float m = F == Q4_1 || F == Q5_1 ? from_half((u16)(r.scales >> 16)) : 0.0f;
    const float middle = F == Q4_0 ? -8.0f : F == Q5_0 ? -16.0f : 0.0f;  // whole numbers until the scale: a sum of 0 stays 0
#pragma unroll
    for (int t = 0; t < T; ++t) {
      const float dot = fmaf(middle, x[t].m[0].y, (float)dot16(a, x[t].q[0], dot16(b, x[t].q[1], 0)));
      acc[t] = fmaf(d * x[t].m[0].x, dot, acc[t]);
      if (F == Q4_1 || F == Q5_1) acc[t] = fmaf(m, x[t].m[0].x * x[t].m[0].y, acc[t]);
    }
  }
}

/// What the lanes of a warp have of one output, in the order of tiles.cu: four neighbours first.
DEV float sum_of_lanes(float v) {
#pragma unroll
  for (int o = 1; o < 32; o <<= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
