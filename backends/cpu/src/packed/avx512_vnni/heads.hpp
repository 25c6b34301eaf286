// What stands before the codes of a panel's blocks of 32: scales of 16 rows, and minimums or zero points where a format has them.
#pragma once

#include "vectors.hpp"

namespace quern::cpu::avx512_vnni::packed {

/// f16 scales of the even and of the odd block of 64 k; minimums likewise.
template <bool Minimums>
struct HalfHead {
  static constexpr int group = 32, bytes = Minimums ? 128 : 64;
  static constexpr bool minimums = Minimums, zeros = false;

  template <int Odd>
  QUERN_VNNI_INLINE __m512 scale(const Byte* p) {
    return load_halves(p + 32 * Odd);
  }
  template <int Odd>
  QUERN_VNNI_INLINE __m512 minimum(const Byte* p) {
    return load_halves(p + 64 + 32 * Odd);
  }
  /// From the canonical block of row `row`.
  static void put(Byte* p, int odd, std::int64_t row, const Byte* block) noexcept {
    __builtin_memcpy(p + 32 * odd + 2 * row, block, 2);
    if (minimums) __builtin_memcpy(p + 64 + 32 * odd + 2 * row, block + 2, 2);
  }
  static float value(const Byte* p, int odd, std::int64_t row, int code) noexcept {
    const float x = half_at(p + 32 * odd + 2 * row) * static_cast<float>(code);
    return minimums ? x + half_at(p + 64 + 32 * odd + 2 * row) : x;
  }
};

/// A word a row for `Group` of k: an f32 as the scale, or its upper 24 bits and a zero point below them.
template <int Group, bool Zeros>
struct WordHead {
  static constexpr int group = Group, bytes = Group == 32 ? 128 : 64;
  static constexpr bool minimums = false, zeros = Zeros;

  QUERN_VNNI_INLINE int at(int odd) { return Group == 32 ? 64 * odd : 0; }
  template <int Odd>
  QUERN_VNNI_INLINE __m512 scale(const Byte* p) {
    const __m512i words = load(p + at(Odd));
    return _mm512_castsi512_ps(Zeros ? _mm512_andnot_si512(_mm512_set1_epi32(255), words) : words);
  }
  template <int Odd>
  QUERN_VNNI_INLINE __m512i zero(const Byte* p) {
    return _mm512_and_si512(load(p + at(Odd)), _mm512_set1_epi32(255));
  }
  static void put(Byte* p, int odd, std::int64_t row, const Byte* block) noexcept { __builtin_memcpy(p + at(odd) + 4 * row, block, 4); }
  static float value(const Byte* p, int odd, std::int64_t row, int code) noexcept {
    std::uint32_t word;
    __builtin_memcpy(&word, p + at(odd) + 4 * row, 4);
    if (Zeros) code -= static_cast<int>(word & 255u), word &= ~255u;
    float scale;
    __builtin_memcpy(&scale, &word, 4);
    return scale * static_cast<float>(code);
  }
};

}  // namespace quern::cpu::avx512_vnni::packed
