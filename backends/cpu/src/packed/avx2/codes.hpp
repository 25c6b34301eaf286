// Codes of 4, 5, 6 and 8 bits in panels of 8 rows: how 32 consecutive k of 8 rows lie, how they are packed and read.
//
// A vector of 32 bytes holds 4 consecutive k of 8 rows: byte 4 row + i. Vector t is k = 4 t .. 4 t + 3 of the 32; t / 4 is its half.
// The eight vectors of codes are stored in 4, 5, 6 or 8 vectors s0, s1 .. without a bit to spare:
//   4 bits   s(t) has vector t in its low nibbles and t + 4 in its high ones
//   5 bits   s0 .. s4 have vectors 0, 1, 4, 5, 3 in the low five bits; vectors 2, 6 and 7 are spread over the fifteen bits above
//   6 bits   for each half, three have its vectors 0, 1, 2 in the low six bits, and two bits each of its vector 3 above
// So most codes cost one `and`: 3.5 operations a vector where a plane of high bits of its own would cost 5.
#pragma once

#include "vectors.hpp"

namespace quern::cpu::avx2::packed {
namespace {

template <int Bits>
struct Codes;

/// The bits of `v` in `mask`, moved down. No bit of a byte that is in the mask may leave the byte.
template <int Shift>
QUERN_AVX2_INLINE __m256i down(__m256i v, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(v, Shift), _mm256_set1_epi8(static_cast<char>(mask)));
}
QUERN_AVX2_INLINE __m256i low_bits(__m256i v, int mask) { return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(mask))); }
QUERN_AVX2_INLINE __m256i either(__m256i a, __m256i b) { return _mm256_or_si256(a, b); }

/// The bits of `v` in `mask`, moved up. None of them may leave its byte.
template <int Shift>
QUERN_AVX2_INLINE __m256i up(__m256i v, int mask) {
  return _mm256_slli_epi16(low_bits(v, mask), Shift);
}
/// Word `row` of stored vector s.
QUERN_AVX2_INLINE std::uint32_t stored_word(const Byte* from, int s, int row) { return word_at(from + 32 * s + 4 * row); }
/// A byte's value in all four bytes of a word.
QUERN_AVX2_INLINE std::uint32_t each(std::uint32_t byte) { return byte * 0x01010101u; }

/// Masks of Codes<5> in memory: with several tokens the registers do not hold them, and GCC would keep copies on the stack.
alignas(32) constexpr Byte stored_masks[5][32] = {
#define QUERN_8(x) x, x, x, x, x, x, x, x
#define QUERN_32(x) \
  { QUERN_8(x), QUERN_8(x), QUERN_8(x), QUERN_8(x) }
    QUERN_32(31), QUERN_32(7), QUERN_32(24), QUERN_32(8), QUERN_32(16)
#undef QUERN_32
#undef QUERN_8
};
constexpr int mask_index(int mask) { return mask == 31 ? 0 : mask == 7 ? 1 : mask == 24 ? 2 : mask == 8 ? 3 : 4; }

// `read<Stored>` calls use(t, codes) for the eight vectors, half by half, vector 4 h first in its half; with Stored its masks come from
// memory. `pack` is its inverse; `unpack` is for one row: 8 words.

template <>
struct Codes<4> {
  static constexpr int bytes = 128;

  template <bool Stored, class Use>
  QUERN_AVX2_INLINE static void read(const Byte* from, Use&& use) {
#pragma GCC unroll 4
    for (int t = 0; t < 4; ++t) {
      const __m256i s = load(from + 32 * t);
      use(t, low_bits(s, 15));
      use(t + 4, down<4>(s, 15));
    }
  }
  QUERN_AVX2_INLINE static void pack(const __m256i (&v)[8], Byte* to) {
    for (int t = 0; t < 4; ++t) store(to + 32 * t, either(v[t], up<4>(v[t + 4], 15)));
  }
  static void unpack(const Byte* from, int row, std::uint32_t w[8]) {
    for (int t = 0; t < 4; ++t) {
      w[t] = stored_word(from, t, row) & each(15);
      w[t + 4] = stored_word(from, t, row) >> 4 & each(15);
    }
  }
};

template <>
struct Codes<5> {
  static constexpr int bytes = 160;

  template <bool Stored, class Use>
  QUERN_AVX2_INLINE static void read(const Byte* from, Use&& use) {
    const Byte* masks = stored_masks[0];
    if (Stored) pin(masks);
    const auto bits = [&](__m256i v, int mask) __attribute__((always_inline)) {
      return Stored ? _mm256_and_si256(v, load(masks + 32 * mask_index(mask))) : low_bits(v, mask);
    };
    const __m256i s0 = load(from), s1 = load(from + 32);
    use(0, bits(s0, 31));
    use(1, bits(s1, 31));
    use(2, either(bits(_mm256_srli_epi16(s0, 5), 7), bits(_mm256_srli_epi16(s1, 3), 24)));
    const __m256i s4 = load(from + 128);
    use(3, bits(s4, 31));
    const __m256i s2 = load(from + 64), s3 = load(from + 96);
    use(4, bits(s2, 31));
    use(5, bits(s3, 31));
    use(6, either(bits(_mm256_srli_epi16(s2, 5), 7), bits(_mm256_srli_epi16(s3, 3), 24)));
    use(7, either(bits(_mm256_srli_epi16(s4, 5), 7), either(bits(_mm256_srli_epi16(s1, 2), 8), bits(_mm256_srli_epi16(s3, 1), 16))));
  }
  QUERN_AVX2_INLINE static void pack(const __m256i (&v)[8], Byte* to) {
    store(to, either(v[0], up<5>(v[2], 7)));
    store(to + 32, either(v[1], either(up<3>(v[2], 24), up<2>(v[7], 8))));
    store(to + 64, either(v[4], up<5>(v[6], 7)));
    store(to + 96, either(v[5], either(up<3>(v[6], 24), up<1>(v[7], 16))));
    store(to + 128, either(v[3], up<5>(v[7], 7)));
  }
  static void unpack(const Byte* from, int row, std::uint32_t w[8]) {
    std::uint32_t s[5];
    for (int i = 0; i < 5; ++i) s[i] = stored_word(from, i, row);
    w[0] = s[0] & each(31);
    w[1] = s[1] & each(31);
    w[2] = (s[0] >> 5 & each(7)) | (s[1] >> 3 & each(24));
    w[3] = s[4] & each(31);
    w[4] = s[2] & each(31);
    w[5] = s[3] & each(31);
    w[6] = (s[2] >> 5 & each(7)) | (s[3] >> 3 & each(24));
    w[7] = (s[4] >> 5 & each(7)) | (s[1] >> 2 & each(8)) | (s[3] >> 1 & each(16));
  }
};

template <>
struct Codes<6> {
  static constexpr int bytes = 192;

  template <bool Stored, class Use>
  QUERN_AVX2_INLINE static void read(const Byte* from, Use&& use) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const __m256i s0 = load(from + 96 * h), s1 = load(from + 96 * h + 32), s2 = load(from + 96 * h + 64);
      use(4 * h, low_bits(s0, 63));
      use(4 * h + 1, low_bits(s1, 63));
      use(4 * h + 2, low_bits(s2, 63));
      const __m256i middle = either(_mm256_srli_epi16(low_bits(s2, 192), 2), low_bits(s1, 192));
      use(4 * h + 3, _mm256_srli_epi16(either(_mm256_srli_epi16(middle, 2), low_bits(s0, 192)), 2));
    }
  }
  QUERN_AVX2_INLINE static void pack(const __m256i (&v)[8], Byte* to) {
    for (int h = 0; h < 2; ++h) {
      const __m256i last = v[4 * h + 3];
      store(to + 96 * h, either(v[4 * h], up<2>(last, 48)));
      store(to + 96 * h + 32, either(v[4 * h + 1], up<4>(last, 12)));
      store(to + 96 * h + 64, either(v[4 * h + 2], up<6>(last, 3)));
    }
  }
  static void unpack(const Byte* from, int row, std::uint32_t w[8]) {
    for (int h = 0; h < 2; ++h, w += 4) {
      w[3] = 0;
      for (int i = 0; i < 3; ++i) {
        const std::uint32_t s = stored_word(from, 3 * h + i, row);
        w[i] = s & each(63);
        w[3] |= (s >> 6 & each(3)) << (4 - 2 * i);
      }
    }
  }
};

template <>
struct Codes<8> {
  static constexpr int bytes = 256;

  template <bool Stored, class Use>
  QUERN_AVX2_INLINE static void read(const Byte* from, Use&& use) {
#pragma GCC unroll 8
    for (int t = 0; t < 8; ++t) use(t, load(from + 32 * t));
  }
  QUERN_AVX2_INLINE static void pack(const __m256i (&v)[8], Byte* to) {
    for (int t = 0; t < 8; ++t) store(to + 32 * t, v[t]);
  }
  static void unpack(const Byte* from, int row, std::uint32_t w[8]) {
    for (int t = 0; t < 8; ++t) w[t] = stored_word(from, t, row);
  }
};

/// 8 rows of 32 bytes, `stride` bytes apart: word t of row r becomes lane r of to[t].
QUERN_AVX2_INLINE void transpose_words(const Byte* rows, std::int64_t stride, __m256i (&to)[8]) {
  __m256i pairs[8];  // rows 2 n and 2 n + 1, interleaved: words 0 and 1, then 2 and 3 of each half
  for (int n = 0; n < 4; ++n) {
    const __m256i a = load_unaligned(rows + 2 * n * stride), b = load_unaligned(rows + (2 * n + 1) * stride);
    pairs[2 * n] = _mm256_unpacklo_epi32(a, b);
    pairs[2 * n + 1] = _mm256_unpackhi_epi32(a, b);
  }
  for (int j = 0; j < 4; ++j) {  // word j of four rows in the first half, j + 4 in the second
    const __m256i* p = pairs + j / 2;
    const __m256i first = j % 2 == 0 ? _mm256_unpacklo_epi64(p[0], p[2]) : _mm256_unpackhi_epi64(p[0], p[2]);
    const __m256i second = j % 2 == 0 ? _mm256_unpacklo_epi64(p[4], p[6]) : _mm256_unpackhi_epi64(p[4], p[6]);
    to[j] = _mm256_permute2x128_si256(first, second, 0x20);
    to[j + 4] = _mm256_permute2x128_si256(first, second, 0x31);
  }
}

/// A block of 32 codes, a byte each, of 8 rows `stride` bytes apart; and one row of a block back.
template <int Bits>
QUERN_AVX2_INLINE void pack_codes(const Byte* codes, std::int64_t stride, Byte* to) {
  __m256i v[8];
  transpose_words(codes, stride, v);
  Codes<Bits>::pack(v, to);
}
template <int Bits>
void unpack_codes(const Byte* from, int row, Byte codes[32]) {
  std::uint32_t w[8];
  Codes<Bits>::unpack(from, row, w);
  __builtin_memcpy(codes, w, 32);
}

}  // namespace
}  // namespace quern::cpu::avx2::packed
