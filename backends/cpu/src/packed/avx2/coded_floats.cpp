// F8_128: codes that stand for floats. See coded.hpp.
#include "coded.hpp"
#include "layouts.hpp"

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

}  // namespace

PackedLayout f8_128_layout() noexcept { return CodedEngine<F8>::layout(); }

}  // namespace quern::cpu::avx2::packed
