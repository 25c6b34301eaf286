// Turns 16 rows around while packing: lane r of a vector is row r.
#pragma once

#include "vectors.hpp"

namespace quern::cpu::avx512_vnni::packed {

/// 16 rows of 8 words (32 bytes, `stride` bytes apart, any alignment): word j of row r becomes lane r of to[j].
QUERN_VNNI_INLINE void transpose_words(const Byte* rows, std::int64_t stride, __m512i (&to)[8]) {
  __m512i pairs[8];  // rows 2 n and 2 n + 1 of each half, interleaved: words 0 and 1, then 2 and 3
  QUERN_VNNI_UNROLL
  for (int n = 0; n < 4; ++n) {
    const auto row = [&](int r) __attribute__((always_inline)) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows + r * stride));
    };
    const __m512i a = _mm512_inserti64x4(_mm512_castsi256_si512(row(2 * n)), row(2 * n + 8), 1);
    const __m512i b = _mm512_inserti64x4(_mm512_castsi256_si512(row(2 * n + 1)), row(2 * n + 9), 1);
    pairs[2 * n] = _mm512_unpacklo_epi32(a, b);
    pairs[2 * n + 1] = _mm512_unpackhi_epi32(a, b);
  }
  // Of four rows each: word j in the first and third 128 bits, j + 4 in the second and fourth.
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
  QUERN_VNNI_UNROLL
  for (int j = 0; j < 4; ++j) {
    const __m512i* p = pairs + j / 2;
    const __m512i first = j % 2 == 0 ? _mm512_unpacklo_epi64(p[0], p[2]) : _mm512_unpackhi_epi64(p[0], p[2]);
    const __m512i second = j % 2 == 0 ? _mm512_unpacklo_epi64(p[4], p[6]) : _mm512_unpackhi_epi64(p[4], p[6]);
    to[j] = _mm512_permutex2var_epi64(first, low, second);
    to[j + 4] = _mm512_permutex2var_epi64(first, high, second);
  }
}

/// 16 rows of 16 bytes, aligned to 16: byte j of row r becomes byte r of row j of `to`; the first `count` (8 or 16) of these.
template <int Count>
QUERN_VNNI_INLINE void transpose_bytes(const Byte (*rows)[16], Byte* to) {
  __m128i from[16];
  QUERN_VNNI_UNROLL
  for (int r = 0; r < 16; ++r) from[r] = _mm_load_si128(reinterpret_cast<const __m128i*>(rows[r]));
  for (int round = 0; round < 4; ++round) {  // each interleaves rows r and r + 8: a row's number moves into a byte's place bit by bit
    __m128i next[16];
    QUERN_VNNI_UNROLL
    for (int r = 0; r < 8; ++r) {
      next[2 * r] = _mm_unpacklo_epi8(from[r], from[r + 8]);
      next[2 * r + 1] = _mm_unpackhi_epi8(from[r], from[r + 8]);
    }
    QUERN_VNNI_UNROLL
    for (int r = 0; r < 16; ++r) from[r] = next[r];
  }
  QUERN_VNNI_UNROLL
  for (int j = 0; j < Count; ++j) _mm_store_si128(reinterpret_cast<__m128i*>(to + 16 * j), from[j]);
}

}  // namespace quern::cpu::avx512_vnni::packed
