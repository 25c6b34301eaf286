// Weights of a tile's 16 rows, a block of 256 of each row, as operands of the matrix units: how they come and lie in a warp's ring in shared memory,
// and their products with f16 activations (operand.cuh). A format is a Ring and its block_products.
//
//   K formats     A is sub-scale x code: of Q4_K and Q5_K exact (at most 63 x 31), of Q6_K rounded where it is above 2048. The scale of 256, and the
//                 minimums, whose products take means of eight activations, are applied to the sums in f32
//   plain scales  A is the code. The scale of a group of weights is applied to their sums in f32. Minimums are f16 operands, for the same means.
//   zero points   are taken off the code, which is exact
//   tables        A is the number that a code stands for, rounded to f16
//   k order       inside a step of 16, lane t has those four elements of both operands that it has read: the sum does not care
//   banks         rows of a stage lie an odd number of sixteens apart
#pragma once
#include "blocks.cuh"
#include "half_pairs.cuh"
#include "mixed.hpp"

#if __CUDA_ARCH__ >= 900 || defined(QUERN_EMULATED_CARD)
/// Row of a tile of 16 that is row g of the matrix units: so what eight lanes read at a time is in different banks.
DEV int row_of(int g) { return (g & 1) * 4 + (g >> 1); }

/// Rows of a tile: 16 of one matrix, or under glu 8 of each of two.
struct Rows {
  const Blocks &w, &w2;
  int first, last, blocks;  // the last row of the matrix; blocks of 256 of a row
  bool glu;
  i64 before = 0;  // blocks that lie before the matrix
  DEV const Blocks& of(int r) const { return glu && r >= 8 ? w2 : w; }
  DEV i64 block(int r, int b) const { return before + (i64)min(first + (glu ? r & 7 : r), last) * blocks + b; }
};

/// How a block of 256 of a tile's rows comes and lies in a ring: `bytes` of it, `stages` of which kquants_ring_bytes hold.
template <int F> struct Ring;

/// Rows as they are in memory, ROW bytes of a block of 256.
template <int ROW, int STAGES> struct WholeRing {
  enum { pitch = ROW, bytes = 16 * ROW, stages = STAGES, mixes_columns = 0, wide = 0, of_row = ROW / 16, all = 16 * of_row, copies = (all + 31) / 32 };
  static_assert(of_row % 2 == 1, "rows would share banks");
  const char *base, *base2;
  u32 from[copies];
  DEV explicit WholeRing(const Rows& rows) {
    base = at<const char>(rows.w.plane[0]) + rows.block(0, 0) * ROW;
    base2 = rows.glu ? at<const char>(rows.w2.plane[0]) + rows.block(0, 0) * ROW : base;
#pragma unroll
    for (int i = 0; i < copies; ++i) {
      const int c = min(i * 32 + (int)(threadIdx.x & 31), all - 1);
      from[i] = (u32)(rows.block(c / of_row, 0) - rows.block(0, 0)) * ROW + c % of_row * 16;
    }
  }
  DEV void fetch(const Rows&, u32 to, int block) const {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < copies; ++i)
      if (all % 32 == 0 || i < copies - 1 || lane < all - 32 * (copies - 1))
        copy_16(to + (i * 32 + lane) * 16, (i * 32 + lane < all / 2 ? base : base2) + from[i] + (u32)block * ROW);
  }
};
template <> struct Ring<Q4_K> : WholeRing<144, 3> { using WholeRing::WholeRing; };
template <> struct Ring<Q5_K> : WholeRing<176, 2> { using WholeRing::WholeRing; };

template <> struct Ring<Q6_K> {  // of each row codes, high bits, sub-scales; then of all rows the words in which their scales are
  enum { pitch = 208, bytes = 16 * (pitch + 4), stages = 2, mixes_columns = 0, wide = 0 };
  DEV explicit Ring(const Rows&) {}
  DEV void fetch(const Rows& rows, u32 to, int block) const {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = i * 4 + lane / 8;
      copy_16(to + r * pitch + lane % 8 * 16, at<const char>(rows.of(i * 4).plane[1]) + rows.block(r, block) * 128 + lane % 8 * 16);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = i * 8 + lane / 4;
      copy_16(to + r * pitch + 128 + lane % 4 * 16, at<const char>(rows.of(i * 8).plane[2]) + rows.block(r, block) * 64 + lane % 4 * 16);
    }
    if (lane >= 16) return;
    copy_16(to + lane * pitch + 192, at<const char>(rows.of(lane).plane[3]) + rows.block(lane, block) * 16);
    copy_4(to + 16 * pitch + lane * 4, at<const char>((rows.of(lane).plane[0] + rows.block(lane, block) * 2) & ~(Address)3));
  }
};

/// Of planes: of each row of a block CODES bytes of codes, then HEADS of scales, then HIGH of high bits. A scale is of `group` weights; it is f16, f16 with
/// a minimum behind it, an f32, or the upper 24 bits of an f32 with a zero point.
enum HeadKind { half_head, minimum_head, float_head, zero_head };
template <int CODES, HeadKind KIND, int GROUP, int HIGH, int STAGES> struct ScaledRing {
  enum { kind = KIND, group = GROUP, head = KIND == half_head ? 2 : 4, heads = 256 / GROUP * head, wide = CODES == 256, high_bytes = HIGH };
  enum { at_heads = CODES, at_high = CODES + (heads + 15) / 16 * 16, end = at_high + HIGH, pitch = end / 16 % 2 ? end : end + 16 };
  enum { bytes = 16 * pitch, stages = STAGES, mixes_columns = 1, of_row = CODES / 16, copies = CODES / 32 };
  const char *base, *base2, *scales, *high;
  u32 from[copies];
  DEV explicit ScaledRing(const Rows& rows) {
    const int lane = threadIdx.x & 31, row = lane & 15;
    base = at<const char>(rows.w.plane[1]) + rows.block(0, 0) * CODES;
    base2 = rows.glu ? at<const char>(rows.w2.plane[1]) + rows.block(0, 0) * CODES : base;
    scales = at<const char>(rows.of(row).plane[0]) + rows.block(row, 0) * heads + (lane >> 4) * 16;
    high = HIGH ? at<const char>(rows.of(row).plane[2]) + rows.block(row, 0) * HIGH + (lane >> 4) * 16 : nullptr;
#pragma unroll
    for (int i = 0; i < copies; ++i)
      from[i] = (u32)(rows.block((i * 32 + lane) / of_row, 0) - rows.block(0, 0)) * CODES + lane % of_row * 16;
  }
  DEV void fetch(const Rows&, u32 to, int block) const {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < copies; ++i)
      copy_16(to + (i * 32 + lane) / of_row * pitch + lane % of_row * 16, (i < copies / 2 ? base : base2) + from[i] + (u32)block * CODES);
    const u32 row = to + (lane & 15) * pitch + (lane >> 4) * 16;
    if (heads == 8) {
      if (lane < 16) copy_8(row + at_heads, scales + block * heads);
    } else if (lane < heads) {
      copy_16(row + at_heads, scales + block * heads);
    }
    if (HIGH) copy_16(row + at_high, high + block * HIGH);
  }
};
template <> struct Ring<Q4_0> : ScaledRing<128, half_head, 32, 0, 3> { using ScaledRing::ScaledRing; };
template <> struct Ring<Q4_1> : ScaledRing<128, minimum_head, 32, 0, 2> { using ScaledRing::ScaledRing; };
template <> struct Ring<Q5_0> : ScaledRing<128, half_head, 32, 32, 2> { using ScaledRing::ScaledRing; };
template <> struct Ring<Q5_1> : ScaledRing<128, minimum_head, 32, 32, 2> { using ScaledRing::ScaledRing; };
template <> struct Ring<Q8_0> : ScaledRing<256, half_head, 32, 0, 2> { using ScaledRing::ScaledRing; };
template <> struct Ring<Q4_Z32> : ScaledRing<128, zero_head, 32, 0, 2> { using ScaledRing::ScaledRing; };
template <> struct Ring<Q4_Z64> : ScaledRing<128, zero_head, 64, 0, 3> { using ScaledRing::ScaledRing; };
template <> struct Ring<Q4_Z128> : ScaledRing<128, zero_head, 128, 0, 3> { using ScaledRing::ScaledRing; };
template <> struct Ring<Q8_Z128> : ScaledRing<256, zero_head, 128, 0, 2> { using ScaledRing::ScaledRing; };
template <> struct Ring<Q8_128> : ScaledRing<256, float_head, 128, 0, 2> { using ScaledRing::ScaledRing; };
template <> struct Ring<F8_128> : ScaledRing<256, float_head, 128, 0, 2> { using ScaledRing::ScaledRing; };
template <> struct Ring<NF4_64> : ScaledRing<128, float_head, 64, 0, 3> { using ScaledRing::ScaledRing; };
template <> struct Ring<FP4_64> : ScaledRing<128, float_head, 64, 0, 3> { using ScaledRing::ScaledRing; };

/// Adds the products of A, 16 rows by a lane's chunk of eight elements, and that chunk of each column: `turned` and `fixed` bytes behind the start of
/// columns that are `pitch` bytes apart. a: [row][pair of elements]. (One sum of all for the address: Q4_K has another order of instructions.)
template <int NT> DEV void multiply_chunk(float (*sums)[4], const u32 (*a)[4], u32 column, int pitch, int turned, int fixed) {
#pragma unroll
  for (int n = 0; n < NT; ++n) {
    const uint4 b = load_16(column + n * 8 * pitch + turned + fixed);
    multiply_half(sums[n], a[0][0], a[1][0], a[0][1], a[1][1], b.x, b.y);
    multiply_half(sums[n], a[0][2], a[1][2], a[0][3], a[1][3], b.z, b.w);
  }
}
/// tot += d * sums, d of each of the lane's two rows.
template <int NT> DEV void add_scaled(float (*tot)[4], const float* d, const float (*sums)[4]) {
#pragma unroll
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) tot[n][i] = fmaf(d[i >> 1], sums[n][i], tot[n][i]);
}

/// tot += m * (minimums times means of eight), m of each of the lane's two rows. a: [half][row], lane t has the minimum of group t of the half's four,
/// twice, for the group's four means. `column`: the lane's first column.
template <int NT> DEV void multiply_means(u32 column, int pitch, const u32 (*a)[2], const float* m, float (*tot)[4]) {
#pragma unroll
  for (int n = 0; n < NT; ++n) {
    const uint4 b = load_16(column + n * 8 * pitch + 512 + (threadIdx.x & 3) * 16);
    float low[4] = {};
    multiply_half(low, a[0][0], a[0][1], a[0][0], a[0][1], b.x, b.y);
    multiply_half(low, a[1][0], a[1][1], a[1][0], a[1][1], b.z, b.w);
#pragma unroll
    for (int i = 0; i < 4; ++i) tot[n][i] = fmaf(m[i >> 1], low[i], tot[n][i]);
  }
}

/// The headers of Q4_K and Q5_K of a lane's two rows.
struct KHeaders {
  float d[2], m[2];
  u32 sub[2][2], least[2][2];  // [row][half]: scales and minimums of four groups
  DEV KHeaders(u32 rows, int pitch) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint4 h = load_16(rows + r * 8 * pitch);
      d[r] = from_half((u16)h.x);
      m[r] = -8.0f * from_half((u16)(h.x >> 16));  // of means of eight
      sub[r][0] = h.y & 0x3f3f3f3f, sub[r][1] = (h.w & 0x0f0f0f0f) | (h.y >> 2 & 0x30303030);
      least[r][0] = h.z & 0x3f3f3f3f, least[r][1] = (h.w >> 4 & 0x0f0f0f0f) | (h.z >> 2 & 0x30303030);
    }
  }
  /// Adds the products of the minimums and the means.
  template <int NT> DEV void add_minimums(u32 x, int pitch, float (*tot)[4]) const {
    const int lane = threadIdx.x & 31;
    const u32 own = 0x4040 + 0x0101 * (lane & 3);
    u32 a[2][2];
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int r = 0; r < 2; ++r) a[h][r] = add2(bytes_1024(least[r][h], own), LESS_1024);
    multiply_means<NT>(x + (lane >> 2) * pitch, pitch, a, m, tot);
  }
};

/// Adds the products of a block of 256 in shared memory, `x` that of the activations, whose rows are `pitch` bytes apart.
template <int NT> DEV void block_products(const Ring<Q4_K>&, const Rows&, int, u32 stage, u32 x, int pitch, float (*tot)[4]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const u32 rows = stage + row_of(g) * 144;
  const KHeaders header(rows, 144);
  header.add_minimums<NT>(x, pitch, tot);
  float acc[NT][4] = {};
  const u32 which = t < 2 ? 0x4040 : 0x4242;
  const u32 column = x + g * pitch + (8 * (t >> 1) + 2 * (t & 1)) * 16;
  const int upper = (t >> 1) * 64;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    uint4 codes[2];
    u32 scale[2][2], less[2];  // [nibble][row]
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      codes[r] = load_16(rows + r * 8 * 144 + 16 + h * 64 + t * 16);
      scale[0][r] = add2(bytes_1024(header.sub[r][h], which), LESS_1024);
      scale[1][r] = fma2(bytes_1024(header.sub[r][h], which + 0x0101), TWO_SIXTEENTHS, LESS_64);
      less[r] = mul2(scale[0][r], LESS_1024);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      u32 pairs[2][4], low[2][4];  // [row][pair of bytes]
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) pairs[r][i] = bytes_1024(word_of(codes[r], 2 * j + i / 2), i & 1 ? 0x4342 : 0x4140);
#pragma unroll
      for (int nibble = 0; nibble < 2; ++nibble) {
        u32 a[2][4];
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (nibble == 0) low[r][i] = pairs[r][i] & 0xff0fff0f;
            // What the low nibbles leave of their bytes are the high ones: a difference, where a mask would wait for the pipe of the masks.
            a[r][i] = nibble == 0 ? fma2(low[r][i], scale[0][r], less[r]) : mul2(sub2(pairs[r][i], low[r][i]), scale[1][r]);
          }
        multiply_chunk<NT>(acc, a, column, pitch, nibble * 64 ^ upper, h * 256 + j * 16);
      }
    }
  }
  add_scaled<NT>(tot, header.d, acc);
}

template <int NT> DEV void block_products(const Ring<Q5_K>&, const Rows&, int, u32 stage, u32 x, int pitch, float (*tot)[4]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const u32 rows = stage + row_of(g) * 176;
  const KHeaders header(rows, 176);
  header.add_minimums<NT>(x, pitch, tot);
  float acc[NT][4] = {};
  const u32 which = t < 2 ? 0x4040 : 0x4242;
  const u32 column = x + g * pitch + (8 * (t >> 1) + 2 * (t & 1)) * 16;
  const int upper = (t >> 1) * 64;
  uint4 high[2];  // bit i of a byte is of group i
#pragma unroll
  for (int r = 0; r < 2; ++r) high[r] = load_16(rows + r * 8 * 176 + 16 + (t & 1) * 16);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    uint4 codes[2];
    u32 scale[2][2], less[2][2];  // [nibble][row]
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      codes[r] = load_16(rows + r * 8 * 176 + 48 + h * 64 + t * 16);
#pragma unroll
      for (int nibble = 0; nibble < 2; ++nibble) {
        scale[nibble][r] = add2(bytes_1024(header.sub[r][h], which + 0x0101 * nibble), LESS_1024);
        less[nibble][r] = mul2(scale[nibble][r], LESS_1024);
      }
    }
    const int turn = 4 * h + 2 * (t >> 1) - 4;  // brings the bit of the low nibble's group to bit 4
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      u32 words[2][2], bits[2][2];  // [row][word]
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int w = 0; w < 2; ++w) {
          words[r][w] = word_of(codes[r], 2 * j + w);
          bits[r][w] = turned_right(word_of(high[r], 2 * j + w), turn);
        }
#pragma unroll
      for (int nibble = 0; nibble < 2; ++nibble) {
        u32 a[2][4];
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
          for (int w = 0; w < 2; ++w) {
            const u32 top = (nibble ? bits[r][w] >> 1 : bits[r][w]) & 0x10101010;
            const u32 five = merged(nibble ? words[r][w] >> 4 : words[r][w], 0x0f0f0f0f, top);
            a[r][2 * w] = fma2(bytes_1024(five, 0x4140), scale[nibble][r], less[nibble][r]);
            a[r][2 * w + 1] = fma2(bytes_1024(five, 0x4342), scale[nibble][r], less[nibble][r]);
          }
        multiply_chunk<NT>(acc, a, column, pitch, nibble * 64 ^ upper, h * 256 + j * 16);
      }
    }
  }
  add_scaled<NT>(tot, header.d, acc);
}

template <int NT> DEV void block_products(const Ring<Q6_K>&, const Rows& rows, int block, u32 stage, u32 x, int pitch, float (*tot)[4]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const u32 row = stage + row_of(g) * 208;
  float acc[NT][4] = {};
  const u32 column = x + g * pitch + 2 * (t & 1) * 16;
  const int upper = (t >> 1) * 64, right = (t >> 1) * 2;
  const u32 which = 0x4040 + 0x0101 * t;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    uint4 codes[2], high[2];
    u32 scale[2][2], less[2][2];  // [nibble][row]
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      codes[r] = load_16(row + r * 8 * 208 + h * 64 + t * 16);
      high[r] = load_16(row + r * 8 * 208 + 128 + h * 32 + (t & 1) * 16);
#pragma unroll
      for (int nibble = 0; nibble < 2; ++nibble) {
        scale[nibble][r] = add2(bytes_1024(load_4(row + r * 8 * 208 + 192 + (2 * h + nibble) * 4) ^ 0x80808080, which), LESS_1152);
        less[nibble][r] = mul2(scale[nibble][r], LESS_96);
      }
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      u32 pairs[2][4], tops[2][4];  // [row][pair of bytes]: in halves, the high bits in their upper bytes
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          pairs[r][i] = __byte_perm(word_of(codes[r], 2 * j + i / 2), 0, i & 1 ? 0x4342 : 0x4140);
          tops[r][i] = __byte_perm(word_of(high[r], 2 * j + i / 2) >> right, 0, i & 1 ? 0x3424 : 0x1404);
        }
#pragma unroll
      for (int nibble = 0; nibble < 2; ++nibble) {
        u32 a[2][4];
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const u32 top = merged(nibble ? tops[r][i] >> 4 : tops[r][i], 0x03000300, TWO_64);
            a[r][i] = fma2(merged(nibble ? pairs[r][i] : pairs[r][i] << 4, 0x00f000f0, top), scale[nibble][r], less[nibble][r]);
          }
        multiply_chunk<NT>(acc, a, column, pitch, upper ^ nibble * 64, h * 256 + nibble * 128 + j * 16);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int tile_row = r * 8 + row_of(g);
    const u32 word = load_4(stage + 16 * 208 + tile_row * 4);
    const float d = from_half((u16)(rows.block(tile_row, block) & 1 ? word >> 16 : word));
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 2 * r; i < 2 * r + 2; ++i) tot[n][i] = fmaf(d, acc[n][i], tot[n][i]);
  }
}

/// Column of eight whose activations are column g of the matrix units, where lanes read eight bytes at a time: so they are in different banks.
DEV int column_of(int g) { return 2 * (g & 3) + (g >> 2); }
/// A lane's four codes of `part` 0 or 1, 16 weights, of the q-th 32 of a block; of nibbles a word has both parts. row: where the row's codes are.
template <class Scaled> DEV u32 quad_word(u32 row, int q, int part) { return load_4(row + (Scaled::wide ? q * 32 + part * 16 : q * 16) + (threadIdx.x & 3) * 4); }
/// Their high bits, which lie in a word of their own: bit i is element i's.
template <class Scaled> DEV u32 quad_bits(u32 row, int q, int part) {
  return Scaled::high_bytes ? load_4(row + Scaled::at_high + q * 4) >> (part * 16 + (threadIdx.x & 3) * 4) & 15 : 0;
}
// quad_of: the numbers of four codes, as pairs of f16. head: of their group.
DEV u32 less_zero(u32 head) { return LESS_1024 + (head & 255) * 0x00010001u; }  // -1024 - zero
/// Nibbles less `least`; `below` is 1024 less.
DEV void nibble_quad(u32 word, int part, u32 below, u32 least, u32* pairs) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const u32 both = bytes_1024(word, i ? 0x4342 : 0x4140), low = both & 0xff0fff0f;
    pairs[i] = part == 0 ? add2(low, below) : fma2(sub2(both, low), TWO_SIXTEENTHS, least);
  }
}
DEV void byte_quad(u32 word, u32 below, u32* pairs) {
#pragma unroll
  for (int i = 0; i < 2; ++i) pairs[i] = add2(bytes_1024(word, i ? 0x4342 : 0x4140), below);
}
DEV void quad_of(const Ring<Q4_0>&, u32 word, u32, int part, u32, u32* pairs) { nibble_quad(word, part, LESS_1032, LESS_8, pairs); }
DEV void quad_of(const Ring<Q4_1>&, u32 word, u32, int part, u32, u32* pairs) { nibble_quad(word, part, LESS_1024, 0, pairs); }
template <int GROUP, int STAGES>
DEV void quad_of(const ScaledRing<128, zero_head, GROUP, 0, STAGES>&, u32 word, u32, int part, u32 head, u32* pairs) {
  const u32 below = less_zero(head);
  nibble_quad(word, part, below, add2(below, TWO_1024), pairs);
}
/// Codes of five bits. Bit i goes to bit 4 of byte i.
DEV void five_quad(u32 word, u32 bits, int part, u32 below, u32* pairs) {
  byte_quad(merged(word >> part * 4, 0x0f0f0f0f, bits * 0x02040810 & 0x10101010), below, pairs);
}
DEV void quad_of(const Ring<Q5_0>&, u32 word, u32 bits, int part, u32, u32* pairs) { five_quad(word, bits, part, LESS_1040, pairs); }
DEV void quad_of(const Ring<Q5_1>&, u32 word, u32 bits, int part, u32, u32* pairs) { five_quad(word, bits, part, LESS_1024, pairs); }
DEV void quad_of(const Ring<Q8_0>&, u32 word, u32, int, u32, u32* pairs) { byte_quad(word ^ 0x80808080, LESS_1152, pairs); }
DEV void quad_of(const Ring<Q8_128>&, u32 word, u32, int, u32, u32* pairs) { byte_quad(word ^ 0x80808080, LESS_1152, pairs); }
DEV void quad_of(const Ring<Q8_Z128>&, u32 word, u32, int, u32 head, u32* pairs) { byte_quad(word, less_zero(head), pairs); }
DEV void quad_of(const Ring<F8_128>&, u32 word, u32, int, u32, u32* pairs) { e4m3_pairs(word, pairs); }
/// Selectors of __byte_perm for four codes in the low nibbles of a word, without their highest bits, and bytes of ones where those are set.
struct Selectors {
  u32 which, upper;
  DEV explicit Selectors(u32 nibbles) {
    nibbles &= 0x0f0f0f0f;
    which = __byte_perm(nibbles | nibbles >> 4, 0, 0x4420) & 0x7777;
    upper = (nibbles >> 3 & 0x01010101) * 255;
  }
};
DEV void pairs_of_bytes(u32 low, u32 high, u32* pairs) {
  pairs[0] = __byte_perm(low, high, 0x5140);
  pairs[1] = __byte_perm(low, high, 0x7362);
}
/// The numbers of NF4 as f16: lower bytes, then upper ones, four in a word.
DEV void quad_of(const Ring<NF4_64>&, u32 word, u32, int part, u32, u32* pairs) {
  const Selectors of(word >> part * 4);
  const u32 low = __byte_perm(0x52339200, 0x00d4ea8d, of.which), low8 = __byte_perm(0x68e02618, 0x00c9800d, of.which);
  const u32 high = __byte_perm(0xb6b8b9bc, 0x00adb1b4, of.which), high8 = __byte_perm(0x3533312d, 0x3c393837, of.which);
  pairs_of_bytes((low & ~of.upper) | (low8 & of.upper), (high & ~of.upper) | (high8 & of.upper), pairs);
}
/// Those of FP4: eight sizes, and the sign in the highest bit.
DEV void quad_of(const Ring<FP4_64>&, u32 word, u32, int part, u32, u32* pairs) {
  const Selectors of(word >> part * 4);
  const u32 high = __byte_perm(0x3c391d00, 0x34313835, of.which);
  pairs_of_bytes(__byte_perm(0x00555500, 0x00550055, of.which), high | (of.upper & 0x80808080), pairs);
}
/// Of a ScaledRing. In tot column_of(i) stands where column i should: settle_columns puts that right.
template <int NT, class Scaled> DEV void block_products(const Scaled& ring, const Rows&, int, u32 stage, u32 x, int pitch, float (*tot)[4]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  enum { row_pitch = Scaled::pitch, each = Scaled::group / 32 };
  const u32 rows = stage + row_of(g) * row_pitch;
  uint4 heads[2];
  if (Scaled::heads <= 16) {
#pragma unroll
    for (int r = 0; r < 2; ++r) heads[r] = load_16(rows + r * 8 * row_pitch + Scaled::at_heads);
  }
  if (Scaled::kind == minimum_head) {
    u32 least[2][2];
    const float eight[2] = {8.0f, 8.0f};
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int r = 0; r < 2; ++r) least[h][r] = __byte_perm(load_4(rows + r * 8 * row_pitch + Scaled::at_heads + (4 * h + t) * 4), 0, 0x3232);
    multiply_means<NT>(x + column_of(g) * pitch, pitch, least, eight, tot);
  }
  const u32 column = x + column_of(g) * pitch + t * 8;
#pragma unroll
  for (int group = 0; group < 8 / each; ++group) {
    u32 head[2];
    float d[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int half = Scaled::kind == half_head ? group & 1 : 0, word = Scaled::kind == half_head ? group / 2 : group;
      head[r] = Scaled::heads <= 16 ? word_of(heads[r], word) >> half * 16 : load_4(rows + r * 8 * row_pitch + Scaled::at_heads + group * 4);
      d[r] = Scaled::kind == zero_head ? __uint_as_float(head[r] & ~255u) : Scaled::kind == float_head ? __uint_as_float(head[r]) : from_half((u16)head[r]);
    }
    float sums[NT][4] = {};
#pragma unroll
    for (int q = group * each; q < (group + 1) * each; ++q) {  // 32 weights: chunks 4 q to 4 q + 3, of which a lane has four elements of two
      u32 a[2][2][2];                                           // [part][row][pair]
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          const u32 row = rows + r * 8 * row_pitch;
          quad_of(ring, quad_word<Scaled>(row, q, part), quad_bits<Scaled>(row, q, part), part, head[r], a[part][r]);
        }
      const u32 chunks = column + (q >> 1) * 128 + ((q ^ q >> 1) & 1) * 64;
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          const uint2 b = load_8(chunks + n * 8 * pitch + part * 32);
          multiply_half(sums[n], a[part][0][0], a[part][1][0], a[part][0][1], a[part][1][1], b.x, b.y);
        }
    }
    add_scaled<NT>(tot, d, sums);
  }
}

/// Puts a lane's sums of columns 2 t and 2 t + 1 where they belong. All lanes of the warp.
template <class Weights, int NT> DEV void settle_columns(float (*tot)[4]) {
  if (!Weights::mixes_columns) return;
  const int lane = threadIdx.x & 31, t = lane & 3;
#pragma unroll
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int r = 0; r < 4; r += 2) {
      float settled[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {  // column 2 t + i is column t + 4 i of the matrix units
        const int owner = (lane & ~3) | (t >> 1) | 2 * i;
        const float even = __shfl_sync(~0u, tot[n][r], owner), odd = __shfl_sync(~0u, tot[n][r + 1], owner);
        settled[i] = t & 1 ? odd : even;
      }
      tot[n][r] = settled[0];
      tot[n][r + 1] = settled[1];
    }
}
#endif
