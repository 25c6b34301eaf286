// Products of the formats of quantised directories with int8 activations by dp4a: what dot.cuh has for those of GGUF. They lie in planes, heads of four
// bytes and then codes; several items of 32 weights share a head.
//
//   zero points   are taken off by the sum of the activations' codes, in whole numbers: a sum of 0 stays 0
//   e4m3          one instruction makes two numbers a pair of f16, exactly. Its products with codes over 128 are exact too: 4 and 7 bits. Four are summed in f16,
//                 by three roundings of 2^-11 at most, where the activations' own is 2^-8 of the largest of 32; then f32 goes on
//   tables        a number of NF4 or FP4 is a whole number over `whole`, hi x 128 + lo, of which each digit has a product of its own. NF4: over 16383, so
//                 that a weight is off by 2^-15 of its block's scale at most. FP4: over 12288, exact
#pragma once
#include "dot.cuh"
#include "half_pairs.cuh"

#if __CUDA_ARCH__ >= 900
/// GROUP weights share a head, the codes of 32 have BYTES.
template <int GROUP, int BYTES> struct GroupItem {
  enum { k = 0, grouped = 1, elements = 32, blocks = 32, with_scale = GROUP / 32, scales = 128 / GROUP, codes = BYTES, high = 0 };
};
template <> struct Item<Q4_Z32> : GroupItem<32, 16> {};
template <> struct Item<Q4_Z64> : GroupItem<64, 16> {};
template <> struct Item<Q4_Z128> : GroupItem<128, 16> {};
template <> struct Item<Q8_Z128> : GroupItem<128, 32> {};
template <> struct Item<Q8_128> : GroupItem<128, 32> {};
template <> struct Item<F8_128> : GroupItem<128, 32> {};
template <> struct Item<NF4_64> : GroupItem<64, 16> {};
template <> struct Item<FP4_64> : GroupItem<64, 16> {};

/// What adds an item's product to a sum. nothing: 0, which the compiler does not know.
template <int F> struct GroupDot {
  DEV explicit GroupDot(u32 nothing) {}
};

/// A head of a zero point and the upper 24 bits of a scale. dot: of the codes, TIMES too large.
template <int TIMES> DEV float add_zeroed(u32 head, int dot, const float2& m, float acc) {
  return fmaf(__uint_as_float(head & ~255u) * (m.x * (1.0f / TIMES)), fmaf(byte_of(head, 0), -(float)TIMES * m.y, (float)dot), acc);
}
struct ZeroNibblesDot {
  DEV explicit ZeroNibblesDot(u32) {}
  DEV float add(const Raw& r, const Input& x, float acc) const {
    const int low = dot16_unsigned(r.codes, 0x0f0f0f0f, x.q[0], 0);
    return add_zeroed<16>(r.scales, dot16_unsigned(r.codes, 0xf0f0f0f0, x.q[1], 16 * low), x.m[0], acc);
  }
};
template <> struct GroupDot<Q4_Z32> : ZeroNibblesDot { using ZeroNibblesDot::ZeroNibblesDot; };
template <> struct GroupDot<Q4_Z64> : ZeroNibblesDot { using ZeroNibblesDot::ZeroNibblesDot; };
template <> struct GroupDot<Q4_Z128> : ZeroNibblesDot { using ZeroNibblesDot::ZeroNibblesDot; };
template <> struct GroupDot<Q8_Z128> {
  DEV explicit GroupDot(u32) {}
  DEV float add(const Raw& r, const Input& x, float acc) const {
    const int dot = dot16_unsigned(r.codes, ~0u, x.q[0], dot16_unsigned(r.more, ~0u, x.q[1], 0));
    return add_zeroed<1>(r.scales, dot, x.m[0], acc);
  }
};
template <> struct GroupDot<Q8_128> {
  DEV explicit GroupDot(u32) {}
  DEV float add(const Raw& r, const Input& x, float acc) const {
    return fmaf(__uint_as_float(r.scales) * x.m[0].x, (float)dot16(r.codes, x.q[0], dot16(r.more, x.q[1], 0)), acc);
  }
};

template <> struct GroupDot<F8_128> {
  enum : u32 { TWO_128TH = 0x20002000, LESS_9 = 0xc880c880 };  // pairs of 1 / 128 and of -9
  DEV explicit GroupDot(u32) {}
  DEV float add(const Raw& r, const Input& x, float acc) const {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      u32 four = 0;
#pragma unroll
      for (int j = i; j < i + 2; ++j) {
        const u32 q = word_of(x.q[j >> 2], j & 3) ^ 0x80808080;  // 128 more than they are
        u32 pairs[2];
        e4m3_pairs(word_of(j < 4 ? r.codes : r.more, j & 3), pairs);
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          const u32 codes = fma2(bytes_1024(q, pair ? 0x4342 : 0x4140), TWO_128TH, LESS_9);
          four = j == i && pair == 0 ? mul2(pairs[0], codes) : fma2(pairs[pair], codes, four);
        }
      }
      sum += from_half((u16)four) + from_half((u16)(four >> 16));
    }
    return fmaf(__uint_as_float(r.scales) * (128.0f * x.m[0].x), sum, acc);
  }
};

/// Numbers of a table as whole ones.
struct Nf4Wholes {
  enum { whole = 16383 };
  static constexpr int of(int code) {
    constexpr int wholes[16] = {-16383, -11406, -8602, -6470, -4660, -3027, -1492, 0, 1304, 2637, 4032, 5536, 7220, 9217, 11844, 16383};
    return wholes[code];
  }
};
struct Fp4Wholes {
  enum { whole = 12288 };
  static constexpr int of(int code) {
    constexpr int wholes[8] = {0, 64, 8192, 12288, 4096, 6144, 2048, 3072};
    return code < 8 ? wholes[code] : -wholes[code - 8];
  }
};
/// Their digits as bytes that picked() takes: those of codes below 8 and those of the others, a table each. A code of the other table gives 0 there, or -1
/// where the byte in its place is negative: what stands in its own table is 1 more then.
template <class Wholes> struct Digits {
  static constexpr int digit(bool high, int code) {
    const int hi = (Wholes::of(code) + (1 << 14)) / 128 - 128;
    return high ? hi : Wholes::of(code) - 128 * hi;
  }
  static constexpr u32 byte(bool high, int code) { return (u32)(digit(high, code) + (digit(high, code ^ 8) < 0 ? 1 : 0)) & 255u; }
  static constexpr u32 word(bool high, int code) {
    return byte(high, code) | byte(high, code + 1) << 8 | byte(high, code + 2) << 16 | byte(high, code + 3) << 24;
  }

  u32 of[4];  // codes 0 to 3, 4 to 7 and so on
  /// In registers: as constants they would be moved there for each code.
  template <bool HIGH> DEV void make(u32 nothing) {
    constexpr u32 words[] = {word(HIGH, 0), word(HIGH, 4), word(HIGH, 8), word(HIGH, 12)};
    of[0] = words[0] ^ nothing, of[1] = words[1], of[2] = words[2] ^ nothing, of[3] = words[3];
  }
  /// The sum of the products of a digit: four codes, which are nibbles of `which`, and four activations. other: the codes with their highest bits turned.
  DEV int dot(u32 which, u32 other, u32 q, int sum) const {
    return __dp4a((int)picked(of[2], of[3], other), (int)q, __dp4a((int)picked(of[0], of[1], which), (int)q, sum));
  }
};
template <class Wholes> struct TableDot {
  Digits<Wholes> high, low;
  DEV explicit TableDot(u32 nothing) {
    high.template make<true>(nothing);
    low.template make<false>(nothing);
  }
  DEV float add(const Raw& r, const Input& x, float acc) const {
    int hi = 0, lo = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // Nibbles of a half word are elements j, j + 16, j + 1 and j + 17.
      const u32 codes = word_of(r.codes, i), others = codes ^ 0x88888888, a = word_of(x.q[0], i), b = word_of(x.q[1], i);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const u32 q = __byte_perm(a, b, half ? 0x7362 : 0x5140), which = codes >> 16 * half, other = others >> 16 * half;
        hi = high.dot(which, other, q, hi);
        lo = low.dot(which, other, q, lo);
      }
    }
    return fmaf(__uint_as_float(r.scales) * (x.m[0].x * (1.0f / (float)Wholes::whole)), (float)(128 * hi + lo), acc);
  }
};
template <> struct GroupDot<NF4_64> : TableDot<Nf4Wholes> { using TableDot::TableDot; };
template <> struct GroupDot<FP4_64> : TableDot<Fp4Wholes> { using TableDot::TableDot; };
#endif
