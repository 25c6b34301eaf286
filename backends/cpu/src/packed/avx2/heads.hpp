// What stands behind the codes of a record's blocks: scales of 8 rows, and minimums or zero points where a format has them.
#pragma once

#include "records.hpp"

namespace quern::cpu::avx2::packed {
namespace {

/// f16 scales of a block, and minimums.
template <bool Minimums>
struct HalfHead {
  static constexpr bool minimums = Minimums, zeros = false;
  static constexpr int group = 32, scale_bytes = Minimums ? 32 : 16, block_head = Minimums ? 4 : 2;
  template <int CodeBytes>
  using Records = packed::Records<CodeBytes, scale_bytes>;

  QUERN_AVX2_INLINE static __m256 scale(const Byte* p) { return load_halves(p); }
  QUERN_AVX2_INLINE static __m256 minimum(const Byte* p) { return load_halves(p + 16); }
  /// From the canonical block of row `row`.
  static void put(Byte* p, std::int64_t row, const Byte* block) {
    __builtin_memcpy(p + 2 * row, block, 2);
    if (minimums) __builtin_memcpy(p + 16 + 2 * row, block + 2, 2);
  }
  static float value(const Byte* p, std::int64_t row, int code) {
    const float x = half_value(half_at(p + 2 * row)) * static_cast<float>(code);
    return minimums ? x + half_value(half_at(p + 16 + 2 * row)) : x;
  }
};

/// A word for `Group` of k: an f32 as the scale, or its upper 24 bits and a zero point below them.
template <int Group, bool Zeros>
struct WordHead {
  static constexpr bool minimums = false, zeros = Zeros;
  static constexpr int group = Group, scale_bytes = 32, block_head = 4;
  template <int CodeBytes>
  using Records = packed::Records<CodeBytes, scale_bytes, Group / 32>;

  QUERN_AVX2_INLINE static __m256 scale(const Byte* p) {
    return _mm256_castsi256_ps(Zeros ? _mm256_andnot_si256(_mm256_set1_epi32(255), load(p)) : load(p));
  }
  /// In both halves of a lane.
  QUERN_AVX2_INLINE static __m256i zero_pair(const Byte* p) {
    const __m256i z = _mm256_and_si256(load(p), _mm256_set1_epi32(255));
    return _mm256_or_si256(z, _mm256_slli_epi32(z, 16));
  }
  static void put(Byte* p, std::int64_t row, const Byte* block) { __builtin_memcpy(p + 4 * row, block, 4); }
  static float value(const Byte* p, std::int64_t row, int code) {
    std::uint32_t word = word_at(p + 4 * row);
    if (Zeros) code -= static_cast<int>(word & 255u), word &= ~255u;
    float scale;
    __builtin_memcpy(&scale, &word, 4);
    return scale * static_cast<float>(code);
  }
};

}  // namespace
}  // namespace quern::cpu::avx2::packed
