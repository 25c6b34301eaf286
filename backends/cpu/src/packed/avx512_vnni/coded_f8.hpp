// The codes of F8_128 as floats.
#pragma once

#include "coded.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

/// A line is 4 k (put_f8_codes). Shifted, codes are f16, 2^-8 of what they stand for.
struct F8 : Coded {
  static constexpr quern_dtype dtype = QUERN_F8_128;
  static constexpr int group = 128, line_k = 4;
  static constexpr int widest = 6;  // with 8 tokens GCC 12 spills what lines hold
  static constexpr float factor = 256.0f;
  using Single = F8;
  struct Line {
    __m512i even, odd;
  };
  /// Of codes in the upper bytes: sign, then 7 bits two places lower.
  QUERN_VNNI_INLINE __m512i halves(__m512i v) { return _mm512_and_si512(_mm512_srai_epi16(v, 1), _mm512_set1_epi32(-0x407f4080)); }
  QUERN_VNNI_INLINE Line line(const Byte* p) {
    const __m512i v = load(p);
    return {halves(_mm512_slli_epi16(v, 8)), halves(v)};
  }
  template <int J>
  QUERN_VNNI_INLINE __m512 value(const Line& l) {
    const __m512i v = J % 2 == 0 ? l.even : l.odd;
    return _mm512_cvtph_ps(J < 2 ? _mm512_castsi512_si256(v) : _mm512_extracti64x4_epi64(v, 1));
  }
  /// The largest code stands for NaN, which no product hides: one in a block makes its part NaN.
  struct Faults {
    __m512i largest = _mm512_setzero_si512();
    QUERN_VNNI_INLINE void see(Faults& f, const Byte* p) {
      f.largest = _mm512_max_epu8(f.largest, _mm512_and_si512(load(p), set_bytes(0x7f)));
    }
    QUERN_VNNI_INLINE __m512 applied(const Faults& f, __m512 part) {
      const __m512i nan = _mm512_cmpeq_epi8_mask(f.largest, set_bytes(0x7f)) == 0 ? _mm512_setzero_si512() : rows(f.largest);
      return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(part), nan));
    }
    /// All bits of the lanes of rows that have such a code: each has two bytes in either half.
    QUERN_VNNI_INLINE __m512i rows(__m512i largest) {
      const __m256i two = _mm256_max_epu8(_mm512_castsi512_si256(largest), _mm512_extracti64x4_epi64(largest, 1));
      const __m256i one = _mm256_max_epu8(_mm256_and_si256(two, _mm256_set1_epi16(0xff)), _mm256_srli_epi16(two, 8));
      return _mm512_movm_epi32(_mm512_cmpeq_epi32_mask(_mm512_cvtepu16_epi32(one), _mm512_set1_epi32(0x7f)));
    }
  };
  QUERN_VNNI_INLINE __m512 whole(const Byte* p, int j, __m512 value) {
    const __m256i pairs = _mm256_load_si256(reinterpret_cast<const __m256i*>(p + j / 2 * 32));
    const __m512i codes =
        _mm512_and_si512(_mm512_cvtepu16_epi32(j % 2 == 0 ? pairs : _mm256_srli_epi16(pairs, 8)), _mm512_set1_epi32(0x7f));
    const __mmask16 nan = _mm512_cmpeq_epi32_mask(codes, _mm512_set1_epi32(0x7f));
    return _mm512_mask_blend_ps(nan, _mm512_mul_ps(value, _mm512_set1_ps(factor)), _mm512_set1_ps(__builtin_nanf("")));
  }
  static void put(const Byte* codes, int at, std::int64_t row, Byte* line) noexcept { put_f8_codes<panel_rows>(codes, at, row, line); }
};

}  // namespace
}  // namespace quern::cpu::avx512_vnni::packed
