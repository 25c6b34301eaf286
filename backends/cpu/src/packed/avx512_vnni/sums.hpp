// Sums of the activations' codes: what offsets and minimums of weights multiply, exact in integers.
//
// The rows of packed.hpp hold them times their scale. Kernels want integers, in the order they meet them: so they are
// made anew from the codes, once a call, some 100 clocks a token at k = 2048 where a pair of panels takes 750.
#pragma once

#include "vectors.hpp"

namespace quern::cpu::avx512_vnni::packed {

/// What stands in a row's `starts`: of each 256 codes `words`, behind all of them `small_words` of each 16384. See quantise.cpp.
struct Starts {
  static constexpr int direct = 0, wide = 16, pairs = 32, words = 36;
  static constexpr int small_words = 4, small_part = 512;         // a bit of a word: so many codes
  static constexpr std::int32_t largest_codes[3] = {15, 31, 32};  // of Q4_K, Q5_K and, less the bias, Q6_K: which word
  static constexpr int exact_word = 3;
};

/// Sums of 16 codes each, or of their magnitudes, of 256 codes of which `count` exist: lane i has those from 16 i on.
template <bool Magnitudes = false>
QUERN_VNNI_INLINE __m512i sums_of_16(const std::int8_t* codes, std::int64_t count) {
  const __m512i ones = set_bytes(1);
  __m512i part[4];
  QUERN_VNNI_UNROLL
  for (int v = 0; v < 4; ++v) {
    const std::int64_t left = count - 64 * v;
    const __mmask64 mask = left >= 64 ? ~0ull : left <= 0 ? 0ull : (1ull << left) - 1;
    const __m512i x = _mm512_maskz_loadu_epi8(mask, codes + 64 * v);
    __m512i s = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, Magnitudes ? _mm512_abs_epi8(x) : x);
    s = _mm512_add_epi32(s, _mm512_shuffle_epi32(s, _MM_PERM_CDAB));
    part[v] = _mm512_add_epi32(s, _mm512_shuffle_epi32(s, _MM_PERM_BADC));  // four equal lanes for each 16 codes
  }
  __m512i all = _mm512_mask_blend_epi32(0x2222, part[0], part[1]);
  all = _mm512_mask_blend_epi32(0x4444, all, part[2]);
  all = _mm512_mask_blend_epi32(0x8888, all, part[3]);  // lane 4 i + v: sum i of part v
  return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), all);
}

/// Sums of 32 in two lanes each, of sums of 16.
QUERN_VNNI_INLINE __m512i sums_of_two(__m512i s) { return _mm512_add_epi32(s, _mm512_shuffle_epi32(s, _MM_PERM_CDAB)); }
/// Sums of 32 codes each, in the lower 8 lanes.
QUERN_VNNI_INLINE __m512i sums_of_32(const std::int8_t* codes, std::int64_t count) {
  return _mm512_maskz_compress_epi32(0x5555, sums_of_two(sums_of_16(codes, count)));
}

/// Stores `count` lanes, each `stride` integers behind the one before.
QUERN_VNNI_INLINE void store_lanes(__m512i v, std::int64_t count, std::int32_t* to, std::int64_t stride) {
  alignas(64) std::int32_t lanes[16];
  _mm512_store_si512(lanes, v);
  for (std::int64_t i = 0; i < count; ++i) to[i * stride] = lanes[i];
}

}  // namespace quern::cpu::avx512_vnni::packed
