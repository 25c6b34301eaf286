// Weights of a tile's 16 rows, a block of 256 of each row, as f16 numbers for products of warpgroups (groups.cuh), whose B has its order of k in
// memory. The rings in shared memory are those of kquants_formats.cuh.
//
//   base    a block of a row has a power of two: the numbers are its weights divided by it, rounded to f16. It is that of the block's largest scale
//           or minimum. So numbers fit f16 whatever the size of scales. Sums are f32 times
//           that of the last block
//   unit    two steps of 16 in k, eight in a block: a word of codes of a row gives what a lane needs of both
//   lane t  has of a step elements 2 t and 2 t + 1, and those 8 behind, of rows g and g + 8
//
// Rounding: of a scale times sub-scale, of a minimum, and of the number: each at most 2^-11 of itself, of what lies in f16's normal range.
#pragma once
#include "kquants_formats.cuh"

#if __CUDA_ARCH__ >= 900 || defined(QUERN_EMULATED_CARD)
#ifndef QUERN_EMULATED_CARD
DEV u32 load_2(u32 p) {
  u16 v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(p));
  return v;
}
#endif

/// Four codes of a lane: bytes 2 t, 2 t + 1 and those 8 behind of the 16 at `p`.
DEV u32 step_word(u32 p) {
  const u32 at = p + (threadIdx.x & 3) * 2;
  return load_2(at) | load_2(at + 8) << 16;
}
/// The same of a word that has a bit for each of 16 elements.
DEV u32 step_bits(u32 bits) {
  const u32 own = bits >> (threadIdx.x & 3) * 2;
  return (own & 3) | (own >> 6 & 12);
}

/// The power of two of a number, from 2^-40 to 2^40: so sums of one block can be taken as of another.
DEV float power_below(float size) { return __uint_as_float(min(max(__float_as_uint(size) >> 23 & 255, 87u), 167u) << 23); }
/// Of a power of two.
DEV float inverse_power(float power) { return __uint_as_float((254u << 23) - __float_as_uint(power)); }
/// A number twice, as f16.
DEV u32 twice(float v) { return to_half(v) * 0x00010001u; }
#ifdef QUERN_EMULATED_CARD
DEV u32 lower_twice(u32 pair) { return __byte_perm(pair, 0, 0x1010); }
DEV u32 upper_twice(u32 pair) { return __byte_perm(pair, 0, 0x3232); }
#else
// In this form arithmetic takes the half without an instruction for it.
DEV u32 lower_twice(u32 pair) {
  u32 v;
  asm("{.reg .b16 low, high;\nmov.b32 {low, high}, %1;\nmov.b32 %0, {low, low};}" : "=r"(v) : "r"(pair));
  return v;
}
DEV u32 upper_twice(u32 pair) {
  u32 v;
  asm("{.reg .b16 low, high;\nmov.b32 {low, high}, %1;\nmov.b32 %0, {high, high};}" : "=r"(v) : "r"(pair));
  return v;
}
#endif

/// base: of rows g and g + 8. `unit`: the numbers of two steps of 16, as a lane holds them of A; step_of(unit, 0 or 1): which these are.
/// Of planes: a unit is a group of 32 with its scale, and its minimum or zero point.
template <int F> struct HalfNumbers {
  typedef Ring<F> R;
  float base[2];
  u32 row;
  static DEV int step_of(int unit, int i) { return unit * 2 + i; }
  DEV u32 head_of(int r, int group) const {
    const u32 at = row + r * 8 * R::pitch + R::at_heads + group * R::head;
    return R::head == 2 ? load_2(at) : load_4(at);
  }
  static DEV float scale_of(u32 head) {
    return R::kind == float_head ? __uint_as_float(head) : R::kind == zero_head ? __uint_as_float(head & 0xffffff00) : from_half((u16)head);
  }
  const R& ring;
  DEV HalfNumbers(const R& of_ring, u32 stage, const Rows&, int) : row(stage + ((threadIdx.x & 31) >> 2) * R::pitch), ring(of_ring) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = 0.0f;
#pragma unroll
      for (int group = 0; group < 256 / R::group; ++group) {
        const u32 head = head_of(r, group);
        most = fmaxf(most, fabsf(scale_of(head)));
        if (R::kind == minimum_head) most = fmaxf(most, fabsf(from_half((u16)(head >> 16))));
      }
      base[r] = power_below(most);
    }
  }
  DEV void unit(int u, u32 (*a)[4]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const u32 at = row + r * 8 * R::pitch, head = head_of(r, u * 32 / R::group);
      const u32 scale = twice(scale_of(head) * inverse_power(base[r]));
      const u32 least = R::kind == minimum_head ? twice(from_half((u16)(head >> 16)) * inverse_power(base[r])) : 0;
      const u32 word = R::wide ? 0 : step_word(at + u * 16), bits = R::high_bytes ? load_4(at + R::at_high + u * 4) : 0;
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        u32 pairs[2];
        quad_of(ring, R::wide ? step_word(at + u * 32 + part * 16) : word, R::high_bytes ? step_bits(bits >> part * 16) : 0, part, head, pairs);
#pragma unroll
        for (int i = 0; i < 2; ++i) a[part][2 * i + r] = R::kind == minimum_head ? fma2(pairs[i], scale, least) : mul2(pairs[i], scale);
      }
    }
  }
};

/// Scales and minimums of Q4_K and Q5_K: of a row those of two groups of 32 in pairs.
template <int PITCH> struct KNumbers {
  float base[2];
  u32 header[2][4], size[2], least[2];  // [row]: 16 bytes; d and dmin as f16 pairs
  u32 row;
  DEV explicit KNumbers(u32 stage) : row(stage + ((threadIdx.x & 31) >> 2) * PITCH) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint4 h = load_16(row + r * 8 * PITCH);
      const float d = from_half((u16)h.x), m = from_half((u16)(h.x >> 16));
      base[r] = power_below(fmaxf(fabsf(d), fabsf(m)));
      size[r] = twice(d * inverse_power(base[r])), least[r] = twice(-m * inverse_power(base[r]));
      header[r][0] = h.y & 0x3f3f3f3f, header[r][1] = (h.w & 0x0f0f0f0f) | (h.y >> 2 & 0x30303030);
      header[r][2] = h.z & 0x3f3f3f3f, header[r][3] = (h.w >> 4 & 0x0f0f0f0f) | (h.z >> 2 & 0x30303030);
    }
  }
  static DEV int step_of(int unit, int i) { return unit / 2 * 4 + i * 2 + unit % 2; }
  /// Of groups 2 q and 2 q + 1.
  DEV u32 scales(int r, int q) const { return mul2(add2(bytes_1024(header[r][q / 2], q % 2 ? 0x4342 : 0x4140), LESS_1024), size[r]); }
  DEV u32 minimums(int r, int q) const { return mul2(add2(bytes_1024(header[r][2 + q / 2], q % 2 ? 0x4342 : 0x4140), LESS_1024), least[r]); }
};

template <> struct HalfNumbers<Q4_K> : KNumbers<144> {
  DEV HalfNumbers(const Ring<Q4_K>&, u32 stage, const Rows&, int) : KNumbers(stage) {}
  DEV void unit(int u, u32 (*a)[4]) const {
    const int q = u / 2;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const u32 word = step_word(row + r * 8 * 144 + 16 + q * 32 + u % 2 * 16), s = scales(r, q), m = minimums(r, q);
      const u32 scale[2] = {lower_twice(s), mul2(upper_twice(s), TWO_SIXTEENTHS)}, less[2] = {lower_twice(m), upper_twice(m)};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const u32 both = bytes_1024(word, i ? 0x4342 : 0x4140), low = both & 0xff0fff0f;
        a[0][2 * i + r] = fma2(add2(low, LESS_1024), scale[0], less[0]);
        a[1][2 * i + r] = fma2(sub2(both, low), scale[1], less[1]);
      }
    }
  }
};

template <> struct HalfNumbers<Q5_K> : KNumbers<176> {
  DEV HalfNumbers(const Ring<Q5_K>&, u32 stage, const Rows&, int) : KNumbers(stage) {}
  DEV void unit(int u, u32 (*a)[4]) const {
    const int q = u / 2;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const u32 at = row + r * 8 * 176 + 16 + u % 2 * 16, s = scales(r, q), m = minimums(r, q);
      const u32 word = step_word(at + 32 + q * 32), high = step_word(at) >> 2 * q;  // bit i of a byte is of group i
#pragma unroll
      for (int nibble = 0; nibble < 2; ++nibble) {
        const u32 five = merged(word >> 4 * nibble, 0x0f0f0f0f, high << (4 - nibble) & 0x10101010);
        const u32 scale = nibble ? upper_twice(s) : lower_twice(s), less = nibble ? upper_twice(m) : lower_twice(m);
#pragma unroll
        for (int i = 0; i < 2; ++i) a[nibble][2 * i + r] = fma2(add2(bytes_1024(five, i ? 0x4342 : 0x4140), LESS_1024), scale, less);
      }
    }
  }
};

template <> struct HalfNumbers<Q6_K> {
  float base[2];
  u32 size[2], row;
  DEV HalfNumbers(const Ring<Q6_K>&, u32 stage, const Rows& rows, int block) : row(stage + ((threadIdx.x & 31) >> 2) * 208) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int tile_row = r * 8 + ((threadIdx.x & 31) >> 2);
      const u32 word = load_4(stage + 16 * 208 + tile_row * 4);
      const float d = from_half((u16)(rows.block(tile_row, block) & 1 ? word >> 16 : word));
      base[r] = power_below(d);
      size[r] = twice(d * inverse_power(base[r]));
    }
  }
  static DEV int step_of(int unit, int i) { return unit / 4 * 8 + i * 4 + unit % 4; }
  DEV void unit(int u, u32 (*a)[4]) const {
    const int h = u / 4, k = u % 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const u32 at = row + r * 8 * 208;
      const u32 word = step_word(at + h * 64 + k * 16), high = step_word(at + 128 + h * 32 + k % 2 * 16) >> k / 2 * 2;
#pragma unroll
      for (int nibble = 0; nibble < 2; ++nibble) {
        const u32 scale = mul2(add2(bytes_1024(load_4(at + 192 + h * 8 + nibble * 4) ^ 0x80808080, 0x4040 + 0x0101 * k), LESS_1152), size[r]);
        const u32 six = merged(word >> 4 * nibble, 0x0f0f0f0f, (nibble ? high : high << 4) & 0x30303030);
#pragma unroll
        for (int i = 0; i < 2; ++i) a[nibble][2 * i + r] = mul2(add2(bytes_1024(six, i ? 0x4342 : 0x4140), LESS_1056), scale);
      }
    }
  }
};
#endif
