// Weight rows as f32 lanes: a struct a dtype with `decode(row, b, low, high)`, the 32 elements from 32 b on.
//
// Codes are put together as bytes with SSE2, which all three instruction sets have, and widened last. A product of scale and
// code is exact (formats/codec.hpp says why), so fused or not makes no difference and the bits are those of formats/.
// A format without lanes of its own here is decoded by formats/<format>.cpp.
#pragma once

#include "../formats.hpp"
#include "half_lanes.hpp"
#include "quern/quern_formats.h"

namespace quern::cpu::QUERN_CPU_ISA {

using Byte = std::uint8_t;

QUERN_CPU_INLINE __m128i load_bytes(const Byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
template <int Shift>
QUERN_CPU_INLINE __m128i bits(__m128i bytes, int mask) {
  return _mm_and_si128(_mm_srli_epi16(bytes, Shift), _mm_set1_epi8(static_cast<char>(mask)));
}
QUERN_CPU_INLINE __m128i shift_bits(__m128i bytes, int shift, int mask) {
  return _mm_and_si128(_mm_srl_epi16(bytes, _mm_cvtsi32_si128(shift)), _mm_set1_epi8(static_cast<char>(mask)));
}
/// 16 in each byte whose bit of `word` is set, else 0.
QUERN_CPU_INLINE __m128i fifth_bits(std::uint32_t word) {
  __m128i x = _mm_cvtsi32_si128(static_cast<int>(word & 0xffffu));
  x = _mm_unpacklo_epi8(x, x);
  x = _mm_shufflelo_epi16(x, 0x50);
  x = _mm_unpacklo_epi32(x, x);
  const __m128i each = _mm_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
  return _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(x, each), each), _mm_set1_epi8(16));
}
QUERN_CPU_INLINE std::uint32_t word_at(const Byte* p) {
  std::uint32_t w;
  __builtin_memcpy(&w, p, 4);
  return w;
}
QUERN_CPU_INLINE Lanes minus_bias(__m128i codes, int bias) {
  return from_signed(_mm_sub_epi8(codes, _mm_set1_epi8(static_cast<char>(bias))));
}

/// Scale and minimum that stand side by side.
struct ScalePair {
  Lanes scale, minimum;
};
QUERN_CPU_INLINE ScalePair load_scale_pair(const Byte* p) {
#if defined(QUERN_CPU_ISA_avx512)
  const __m512 both = _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int>(word_at(p)))));
  return {{{_mm512_permutexvar_ps(_mm512_setzero_si512(), both)}}, {{_mm512_permutexvar_ps(_mm512_set1_epi32(1), both)}}};
#else
  return {broadcast(load_half(p)), broadcast(load_half(p + 2))};
#endif
}

#if defined(QUERN_CPU_ISA_avx512)
/// Values of all 16 codes of a block; a permutation then decodes 16 elements, reading the low four bits of each index.
QUERN_CPU_INLINE __m512 counting() { return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
QUERN_CPU_INLINE Lanes pick(__m512i index, __m512 values) { return {{_mm512_permutexvar_ps(index, values)}}; }
#endif

struct RowF32 {
  static constexpr bool plain = true;
  static constexpr int bytes = 4;
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    low = load(reinterpret_cast<const float*>(row) + b * 32);
    high = load(reinterpret_cast<const float*>(row) + b * 32 + 16);
  }
  static float one(const Byte* p) {
    float x;
    __builtin_memcpy(&x, p, 4);
    return x;
  }
};
struct RowF16 {
  static constexpr bool plain = true;
  static constexpr int bytes = 2;
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    low = load_halves(row + b * 64);
    high = load_halves(row + b * 64 + 32);
  }
  static float one(const Byte* p) { return half_to_float(half_bits(p)); }
};
struct RowBf16 {
  static constexpr bool plain = true;
  static constexpr int bytes = 2;
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    low = load_bfloats(row + b * 64);
    high = load_bfloats(row + b * 64 + 32);
  }
  static float one(const Byte* p) { return bfloat_to_float(half_bits(p)); }
};
struct RowQ40 {
  static constexpr bool plain = false;
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    const Byte* p = row + b * block_bytes_of<QUERN_Q4_0>;
    const Lanes d = broadcast(load_half(p));
    const __m128i codes = load_bytes(p + 2);
#if defined(QUERN_CPU_ISA_avx512)
    const __m512 values = _mm512_mul_ps(_mm512_sub_ps(counting(), _mm512_set1_ps(8)), d.v[0]);
    const __m512i index = _mm512_cvtepu8_epi32(codes);
    low = pick(index, values);
    high = pick(_mm512_srli_epi32(index, 4), values);
#else
    low = mul(minus_bias(bits<0>(codes, 15), 8), d);
    high = mul(minus_bias(bits<4>(codes, 15), 8), d);
#endif
  }
};
struct RowQ41 {
  static constexpr bool plain = false;
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    const Byte* p = row + b * block_bytes_of<QUERN_Q4_1>;
    const auto [d, m] = load_scale_pair(p);
    const __m128i codes = load_bytes(p + 4);
#if defined(QUERN_CPU_ISA_avx512)
    const __m512 values = _mm512_fmadd_ps(counting(), d.v[0], m.v[0]);
    const __m512i index = _mm512_cvtepu8_epi32(codes);
    low = pick(index, values);
    high = pick(_mm512_srli_epi32(index, 4), values);
#else
    low = fma(from_unsigned(bits<0>(codes, 15)), d, m);
    high = fma(from_unsigned(bits<4>(codes, 15)), d, m);
#endif
  }
};
struct RowQ50 {
  static constexpr bool plain = false;
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    const Byte* p = row + b * block_bytes_of<QUERN_Q5_0>;
    const Lanes d = broadcast(load_half(p));
    const std::uint32_t fifth = word_at(p + 2);
    const __m128i codes = load_bytes(p + 6);
    low = mul(minus_bias(_mm_or_si128(bits<0>(codes, 15), fifth_bits(fifth)), 16), d);
    high = mul(minus_bias(_mm_or_si128(bits<4>(codes, 15), fifth_bits(fifth >> 16)), 16), d);
  }
};
struct RowQ51 {
  static constexpr bool plain = false;
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    const Byte* p = row + b * block_bytes_of<QUERN_Q5_1>;
    const auto [d, m] = load_scale_pair(p);
    const std::uint32_t fifth = word_at(p + 4);
    const __m128i codes = load_bytes(p + 8);
    low = fma(from_unsigned(_mm_or_si128(bits<0>(codes, 15), fifth_bits(fifth))), d, m);
    high = fma(from_unsigned(_mm_or_si128(bits<4>(codes, 15), fifth_bits(fifth >> 16))), d, m);
  }
};
struct RowQ80 {
  static constexpr bool plain = false;
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    const Byte* p = row + b * block_bytes_of<QUERN_Q8_0>;
    const Lanes d = broadcast(load_half(p));
    low = mul(from_signed(load_bytes(p + 2)), d);
    high = mul(from_signed(load_bytes(p + 18)), d);
  }
};

/// Scale and negated minimum of sub-block j of Q4_K and Q5_K.
QUERN_CPU_INLINE void sub_scale(const Byte* p, int j, Lanes& scale, Lanes& minimum) {
  const Byte* s = p + 4;
  const int a = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | ((s[j - 4] >> 6) << 4);
  const int m = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | ((s[j] >> 6) << 4);
  scale = broadcast(load_half(p) * static_cast<float>(a));
  minimum = broadcast(-(load_half(p + 2) * static_cast<float>(m)));
}
struct RowQ4K {
  static constexpr bool plain = false;
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    const Byte* p = row + (b >> 3) * block_bytes_of<QUERN_Q4_K>;
    const int j = static_cast<int>(b & 7);
    Lanes scale, minimum;
    sub_scale(p, j, scale, minimum);
    const Byte* codes = p + 16 + (j >> 1) * 32;
    const int shift = (j & 1) * 4;
#if defined(QUERN_CPU_ISA_avx512)
    const __m512 values = _mm512_fmadd_ps(counting(), scale.v[0], minimum.v[0]);
    const __m128i by = _mm_cvtsi32_si128(shift);
    low = pick(_mm512_srl_epi32(_mm512_cvtepu8_epi32(load_bytes(codes)), by), values);
    high = pick(_mm512_srl_epi32(_mm512_cvtepu8_epi32(load_bytes(codes + 16)), by), values);
#else
    low = fma(from_unsigned(shift_bits(load_bytes(codes), shift, 15)), scale, minimum);
    high = fma(from_unsigned(shift_bits(load_bytes(codes + 16), shift, 15)), scale, minimum);
#endif
  }
};
struct RowQ5K {
  static constexpr bool plain = false;
  QUERN_CPU_INLINE __m128i codes(const Byte* low, const Byte* high, int j) {
    const __m128i fifth = _mm_slli_epi16(shift_bits(load_bytes(high), j, 1), 4);
    return _mm_or_si128(shift_bits(load_bytes(low), (j & 1) * 4, 15), fifth);
  }
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    const Byte* p = row + (b >> 3) * block_bytes_of<QUERN_Q5_K>;
    const int j = static_cast<int>(b & 7);
    Lanes scale, minimum;
    sub_scale(p, j, scale, minimum);
    const Byte* q = p + 48 + (j >> 1) * 32;
    low = fma(from_unsigned(codes(q, p + 16, j)), scale, minimum);
    high = fma(from_unsigned(codes(q + 16, p + 32, j)), scale, minimum);
  }
};
struct RowQ6K {
  static constexpr bool plain = false;
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    const Byte* p = row + (b >> 3) * block_bytes_of<QUERN_Q6_K>;
    const int j = static_cast<int>(b & 7), half = j >> 2, nibble = (j >> 1) & 1, part = j & 1;
    const Byte *q = p + 64 * half + 32 * part, *h = p + 128 + 32 * half;
    const int shift = 4 * nibble, pair = 4 * nibble + 2 * part;
    const float d = load_half(p + 208);
    const auto* scales = reinterpret_cast<const signed char*>(p + 192 + 2 * j);
    const __m128i c0 = _mm_or_si128(shift_bits(load_bytes(q), shift, 15), _mm_slli_epi16(shift_bits(load_bytes(h), pair, 3), 4));
    const __m128i c1 = _mm_or_si128(shift_bits(load_bytes(q + 16), shift, 15), _mm_slli_epi16(shift_bits(load_bytes(h + 16), pair, 3), 4));
    low = mul(minus_bias(c0, 32), broadcast(d * static_cast<float>(scales[0])));
    high = mul(minus_bias(c1, 32), broadcast(d * static_cast<float>(scales[1])));
  }
};

/// Scale and zero point of the word that both share.
struct ZeroPointLanes {
  Lanes scale, zero;
};
QUERN_CPU_INLINE ZeroPointLanes load_zero_point(const Byte* p) {
  const std::uint32_t head = word_at(p);
  return {broadcast(__builtin_bit_cast(float, head & ~255u)), broadcast(static_cast<float>(head & 255u))};
}
/// Blocks of n codes of four bits behind a word with their zero point and scale.
template <int n>
struct RowQ4Z {
  static constexpr bool plain = false;
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    constexpr std::int64_t parts = n / 32;
    const Byte* p = row + b / parts * (4 + n / 2);
    const auto [d, zero] = load_zero_point(p);
    const __m128i codes = load_bytes(p + 4 + b % parts * 16);
#if defined(QUERN_CPU_ISA_avx512)
    const __m512 values = _mm512_mul_ps(_mm512_sub_ps(counting(), zero.v[0]), d.v[0]);
    const __m512i index = _mm512_cvtepu8_epi32(codes);
    low = pick(index, values);
    high = pick(_mm512_srli_epi32(index, 4), values);
#else
    low = mul(sub(from_unsigned(bits<0>(codes, 15)), zero), d);
    high = mul(sub(from_unsigned(bits<4>(codes, 15)), zero), d);
#endif
  }
};

/// The same of eight bits.
template <int n>
struct RowQ8Z {
  static constexpr bool plain = false;
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    constexpr std::int64_t parts = n / 32;
    const Byte* p = row + b / parts * (4 + n);
    const auto [d, zero] = load_zero_point(p);
    const Byte* codes = p + 4 + b % parts * 32;
    low = mul(sub(from_unsigned(load_bytes(codes)), zero), d);
    high = mul(sub(from_unsigned(load_bytes(codes + 16)), zero), d);
  }
};
/// An f32 and 128 signed bytes.
struct RowQ8Whole {
  static constexpr bool plain = false;
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    const Byte* p = row + (b >> 2) * block_bytes_of<QUERN_Q8_128>;
    const Lanes d = broadcast(__builtin_bit_cast(float, word_at(p)));
    const Byte* codes = p + 4 + (b & 3) * 32;
    low = mul(from_signed(load_bytes(codes)), d);
    high = mul(from_signed(load_bytes(codes + 16)), d);
  }
};

/// A format that has no lanes of its own.
template <quern_dtype Format>
struct RowByCodec {
  static constexpr bool plain = false;
  static constexpr std::int64_t parts = block_elements_of<Format> / 32, block_bytes = block_bytes_of<Format>;
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    alignas(64) float values[32];
    decode_part(Format, reinterpret_cast<const std::byte*>(row + b / parts * block_bytes), static_cast<int>(b % parts), values);
    low = load(values);
    high = load(values + 16);
  }
};
#if defined(__F16C__)
/// An f32 and 128 numbers of eight bits. As f16 these lie 2^8 lower.
struct RowF8 {
  static constexpr bool plain = false;
  QUERN_CPU_INLINE Lanes sixteen(const Byte* codes) {
    const __m256i wide = _mm256_cvtepu8_epi16(load_bytes(codes)), size = _mm256_and_si256(wide, _mm256_set1_epi16(0x7f));
    const __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(wide, size), 8);
    // The exponent of NaN, 0x7c00, by shifts: few registers are left for constants.
    const __m256i nan = _mm256_slli_epi16(_mm256_srli_epi16(_mm256_cmpeq_epi16(size, _mm256_set1_epi16(0x7f)), 11), 10);
    return mul(from_halves(_mm256_or_si256(_mm256_or_si256(sign, nan), _mm256_slli_epi16(size, 7))), broadcast(256.0f));
  }
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    const Byte* p = row + (b >> 2) * block_bytes_of<QUERN_F8_128>;
    const Lanes d = broadcast(__builtin_bit_cast(float, word_at(p)));
    const Byte* codes = p + 4 + (b & 3) * 32;
    low = mul(sixteen(codes), d);
    high = mul(sixteen(codes + 16), d);
  }
};
#endif
#if defined(QUERN_CPU_ISA_avx512) || defined(QUERN_CPU_ISA_avx2)
/// An f32 and 64 codes of four bits of a table.
template <const float* values>
struct RowTable {
  static constexpr bool plain = false;
#if defined(QUERN_CPU_ISA_avx2)
  /// Values of eight codes: the lower three bits choose in each half of the table, the fourth chooses the half.
  QUERN_CPU_INLINE __m256 eight(__m256i index) {
    const __m256 lower = _mm256_permutevar8x32_ps(_mm256_loadu_ps(values), index),
                 upper = _mm256_permutevar8x32_ps(_mm256_loadu_ps(values + 8), index);
    return _mm256_blendv_ps(lower, upper, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
  }
#endif
  QUERN_CPU_INLINE void decode(const Byte* row, std::int64_t b, Lanes& low, Lanes& high) {
    const Byte* p = row + (b >> 1) * block_bytes_of<QUERN_NF4_64>;
#if defined(QUERN_CPU_ISA_avx2)
    const Lanes d = broadcast(__builtin_bit_cast(float, word_at(p)));
    const __m128i codes = load_bytes(p + 4 + (b & 1) * 16);
    const __m256i first = _mm256_cvtepu8_epi32(codes), second = _mm256_cvtepu8_epi32(_mm_srli_si128(codes, 8));
    low = mul(Lanes{{eight(first), eight(second)}}, d);
    high = mul(Lanes{{eight(_mm256_srli_epi32(first, 4)), eight(_mm256_srli_epi32(second, 4))}}, d);
#else
    const __m512 table = _mm512_mul_ps(_mm512_loadu_ps(values), _mm512_set1_ps(__builtin_bit_cast(float, word_at(p))));
    const __m512i index = _mm512_cvtepu8_epi32(load_bytes(p + 4 + (b & 1) * 16));
    low = pick(index, table);
    high = pick(_mm512_srli_epi32(index, 4), table);
#endif
  }
};
#endif

template <quern_dtype Format>
struct RowOf {
  using type = RowByCodec<Format>;
};
#define QUERN_CPU_ROW(FORMAT, row) \
  template <> \
  struct RowOf<QUERN_##FORMAT> { \
    using type = row; \
  };
QUERN_CPU_ROW(Q4_0, RowQ40)
QUERN_CPU_ROW(Q4_1, RowQ41)
QUERN_CPU_ROW(Q5_0, RowQ50)
QUERN_CPU_ROW(Q5_1, RowQ51)
QUERN_CPU_ROW(Q8_0, RowQ80)
QUERN_CPU_ROW(Q4_K, RowQ4K)
QUERN_CPU_ROW(Q5_K, RowQ5K)
QUERN_CPU_ROW(Q6_K, RowQ6K)
QUERN_CPU_ROW(Q4_Z32, RowQ4Z<32>)
QUERN_CPU_ROW(Q4_Z64, RowQ4Z<64>)
QUERN_CPU_ROW(Q4_Z128, RowQ4Z<128>)
QUERN_CPU_ROW(Q8_Z32, RowQ8Z<32>)
QUERN_CPU_ROW(Q8_Z128, RowQ8Z<128>)
QUERN_CPU_ROW(Q8_128, RowQ8Whole)
#if defined(__F16C__)
QUERN_CPU_ROW(F8_128, RowF8)
#endif
#if defined(QUERN_CPU_ISA_avx512) || defined(QUERN_CPU_ISA_avx2)
QUERN_CPU_ROW(NF4_64, RowTable<quern_nf4_values>)
QUERN_CPU_ROW(FP4_64, RowTable<quern_fp4_values>)
#endif
#undef QUERN_CPU_ROW

/// Calls f(Row{}) with the row type of a dtype.
template <typename F>
QUERN_CPU_INLINE void with_row(quern_dtype dtype, const F& f) {
  switch (dtype) {
    case QUERN_F32: return f(RowF32{});
    case QUERN_F16: return f(RowF16{});
    case QUERN_BF16: return f(RowBf16{});
#define QUERN_CPU_ROW(FORMAT, format, with) \
  case QUERN_##FORMAT: return f(typename RowOf<QUERN_##FORMAT>::type{});
      QUERN_EACH_FORMAT(QUERN_CPU_ROW, )
#undef QUERN_CPU_ROW
    default: return;
  }
}

/// The n < 32 elements behind 32 b of a plain row, the rest zero.
template <typename Row>
QUERN_CPU_INLINE void decode_tail(const Byte* row, std::int64_t b, int n, Lanes& low, Lanes& high) {
  alignas(64) float part[32] = {};
  if constexpr (Row::plain)
    for (int i = 0; i < n; ++i) part[i] = Row::one(row + (b * 32 + i) * Row::bytes);
  low = load(part);
  high = load(part + 16);
}

}  // namespace quern::cpu::QUERN_CPU_ISA
