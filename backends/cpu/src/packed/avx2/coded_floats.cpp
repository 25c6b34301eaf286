// F8_128, NF4_64 and FP4_64: codes that stand for floats. See coded.hpp. The last two are for products that allow no int8 activations; word_heads.cpp has the others.
#include "coded.hpp"
#include "layouts.hpp"

#include "quern/quern_formats.h"

namespace quern::cpu::avx2::packed {
namespace {

/// Shifted, codes are f16, 2^-8 of what they stand for.
struct F8 {
  static constexpr quern_dtype dtype = QUERN_F8_128;
  static constexpr const char* key = "f8_128.8x4.v1";
  static constexpr int group = block_elements_of<dtype>, line_k = 4;
  static constexpr float factor = 256.0f;
  struct Tables {};

  /// Of codes in the upper bytes: sign, then 7 bits two places lower.
  QUERN_AVX2_INLINE static __m256i halves(__m256i v) { return _mm256_and_si256(_mm256_srai_epi16(v, 1), _mm256_set1_epi32(-0x407f4080)); }
  template <class Use>
  QUERN_AVX2_INLINE static void use_halves(__m256i even, __m256i odd, Use&& use) {
    use(0, _mm256_cvtph_ps(_mm256_castsi256_si128(even)));
    use(1, _mm256_cvtph_ps(_mm256_castsi256_si128(odd)));
    use(2, _mm256_cvtph_ps(_mm256_extracti128_si256(even, 1)));
    use(3, _mm256_cvtph_ps(_mm256_extracti128_si256(odd, 1)));
  }
  template <class Use>
  QUERN_AVX2_INLINE static void each(const Tables&, const Byte* p, Use&& use) {
    const __m256i v = load(p);
    use_halves(halves(_mm256_slli_epi16(v, 8)), halves(v), use);
  }
  /// The largest code stands for NaN: its exponent becomes that of f16's.
  QUERN_AVX2_INLINE static __m256i with_nan(__m256i halves) {
    const __m256i size = _mm256_and_si256(halves, _mm256_set1_epi16(0x7fff)), largest = _mm256_cmpeq_epi16(size, _mm256_set1_epi16(0x3f80));
    return _mm256_or_si256(halves, _mm256_and_si256(largest, _mm256_set1_epi16(0x7c00)));
  }
  template <class Use>
  QUERN_AVX2_INLINE static void each_whole(const Tables&, const Byte* p, Use&& use) {
    const __m256i v = load(p);
    use_halves(
        with_nan(halves(_mm256_slli_epi16(v, 8))), with_nan(halves(v)), [&](int j, __m256 weights) __attribute__((always_inline)) {
          use(j, _mm256_mul_ps(weights, _mm256_set1_ps(factor)));
        });
  }

  /// No product hides a NaN: one code in a block makes its sum NaN.
  struct Faults {
    __m256i largest = _mm256_setzero_si256();
    QUERN_AVX2_INLINE void see(const Byte* p) { largest = _mm256_max_epu8(largest, _mm256_and_si256(load(p), _mm256_set1_epi8(0x7f))); }
    QUERN_AVX2_INLINE __m256 applied(__m256 sum) const {
      const __m256i found = _mm256_cmpeq_epi8(largest, _mm256_set1_epi8(0x7f));
      return _mm256_testz_si256(found, found) != 0 ? sum : _mm256_or_ps(sum, rows(found));
    }
    /// All bits of the lanes of rows that have such a code: each has two bytes in either half.
    QUERN_AVX2_INLINE static __m256 rows(__m256i found) {
      const __m128i words = _mm_or_si128(_mm256_castsi256_si128(found), _mm256_extracti128_si256(found, 1));
      return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_cvtepu16_epi32(words), _mm256_setzero_si256()));
    }
  };
  static void put(const Byte* codes, int at, std::int64_t row, Byte* line) noexcept { put_f8_codes<8>(codes, at, row, line); }
};

/// A line is 8 k: k 0 to 3 in the low nibbles, 4 to 7 in the high ones. Each half has four rows, and of them the four codes of one k behind each
/// other. Values come byte by byte, by four shuffles for 4 k, and eight put their bytes together. Two permutations, two shifts and a choice for
/// each k read 2.6 bytes a clock on Zen 5, and this 3.5.
template <quern_dtype Dtype, const float* values>
struct Table {
  static constexpr quern_dtype dtype = Dtype;
  static constexpr int group = block_elements_of<dtype>, line_k = 8;
  static constexpr float factor = 1.0f;
  struct Bytes {
    alignas(32) Byte of[4][32];
  };
  static constexpr Bytes bytes_of_values() {
    Bytes bytes{};
    for (int i = 0; i < 4; ++i)
      for (int n = 0; n < 32; ++n) bytes.of[i][n] = static_cast<Byte>(__builtin_bit_cast(std::uint32_t, values[n % 16]) >> 8 * i);
    return bytes;
  }
  static constexpr Bytes stored = bytes_of_values();
  struct Tables {
    __m256i of[4] = {load(stored.of[0]), load(stored.of[1]), load(stored.of[2]), load(stored.of[3])};
  };

  template <class Use>
  QUERN_AVX2_INLINE static void four(const Tables& tables, __m256i codes, int j, Use&& use) {
    const __m256i b0 = _mm256_shuffle_epi8(tables.of[0], codes), b1 = _mm256_shuffle_epi8(tables.of[1], codes);
    const __m256i lower = _mm256_unpacklo_epi8(b0, b1), next_lower = _mm256_unpackhi_epi8(b0, b1);
    const __m256i b2 = _mm256_shuffle_epi8(tables.of[2], codes), b3 = _mm256_shuffle_epi8(tables.of[3], codes);
    const __m256i upper = _mm256_unpacklo_epi8(b2, b3), next_upper = _mm256_unpackhi_epi8(b2, b3);
    use(j, _mm256_castsi256_ps(_mm256_unpacklo_epi16(lower, upper)));
    use(j + 1, _mm256_castsi256_ps(_mm256_unpackhi_epi16(lower, upper)));
    use(j + 2, _mm256_castsi256_ps(_mm256_unpacklo_epi16(next_lower, next_upper)));
    use(j + 3, _mm256_castsi256_ps(_mm256_unpackhi_epi16(next_lower, next_upper)));
  }
  /// The line is loaded twice: a register less.
  template <class Use>
  QUERN_AVX2_INLINE static void each(const Tables& tables, const Byte* p, Use&& use) {
    four(tables, low_bits(load(p), 15), 0, use);
    pin(p);
    four(tables, down<4>(load(p), 15), 4, use);
  }
  template <class Use>
  QUERN_AVX2_INLINE static void each_whole(const Tables& tables, const Byte* p, Use&& use) {
    each(tables, p, use);
  }
  /// All codes stand for numbers.
  struct Faults {
    QUERN_AVX2_INLINE void see(const Byte*) {}
    QUERN_AVX2_INLINE __m256 applied(__m256 sum) const { return sum; }
  };
  static void put(const Byte* codes, int at, std::int64_t row, Byte* line) noexcept {
    const Nibbles nibbles(codes, at);
    for (int j = 0; j < 4; ++j) line[row / 4 * 16 + 4 * j + row % 4] = static_cast<Byte>(nibbles[j] | nibbles[j + 4] << 4);
  }
};
struct Nf4 : Table<QUERN_NF4_64, quern_nf4_values> {
  static constexpr const char* key = "nf4_64.8x8.v1";
};
struct Fp4 : Table<QUERN_FP4_64, quern_fp4_values> {
  static constexpr const char* key = "fp4_64.8x8.v1";
};

}  // namespace

PackedLayout f8_128_layout() noexcept { return CodedEngine<F8>::layout(); }
PackedLayout nf4_64_floats_layout() noexcept { return CodedEngine<Nf4>::layout(); }
PackedLayout fp4_64_floats_layout() noexcept { return CodedEngine<Fp4>::layout(); }

}  // namespace quern::cpu::avx2::packed
