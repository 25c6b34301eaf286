// Rounds activations to int8. See ActivationRow in packed.hpp for the row that results.
#include "layouts.hpp"
#include "vectors.hpp"

namespace quern::cpu::avx2::packed {
namespace {

QUERN_AVX2_INLINE __m256 magnitude(__m256 v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }

QUERN_AVX2_INLINE float greatest(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

/// Greatest magnitude of 32 values; `bad` collects the lanes that hold a NaN or an infinity.
QUERN_AVX2_INLINE __m256 greatest_lanes(const float* x, __m256& bad) {
  const __m256 limit = _mm256_set1_ps(__builtin_inff());
  __m256 m = _mm256_setzero_ps();
  for (int i = 0; i < 4; ++i) {
    const __m256 v = magnitude(_mm256_loadu_ps(x + 8 * i));
    bad = _mm256_or_ps(bad, _mm256_cmp_ps(v, limit, _CMP_NLT_UQ));
    m = _mm256_max_ps(m, v);
  }
  return m;
}

/// Scale of a block; NaN if something in it is not finite.
QUERN_AVX2_INLINE float block_scale(const float* x, int count) {
  __m256 bad = _mm256_setzero_ps(), m = _mm256_setzero_ps();
  for (int i = 0; i < count; i += 32) m = _mm256_max_ps(m, greatest_lanes(x + i, bad));
  return _mm256_movemask_ps(bad) != 0 ? __builtin_nanf("") : greatest(m) / 127.0f;
}

QUERN_AVX2_INLINE __m256i rounded(const float* x, __m256 scale) { return _mm256_cvtps_epi32(_mm256_div_ps(_mm256_loadu_ps(x), scale)); }

/// Codes of 32 values and their sum. The scale of a block of subnormals is so coarse that a quotient can pass 127.
QUERN_AVX2_INLINE int block_codes(const float* x, float scale, std::int8_t* codes) {
  if (!(scale > 0)) {  // zeros, or NaN
    store(codes, _mm256_setzero_si256());
    return 0;
  }
  const __m256 s = _mm256_set1_ps(scale);
  const __m256i words0 = _mm256_packs_epi32(rounded(x, s), rounded(x + 8, s)), words1 = _mm256_packs_epi32(rounded(x + 16, s), rounded(x + 24, s));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // packs works within 128 bits
  __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words0, words1), order);
  bytes = _mm256_max_epi8(bytes, _mm256_set1_epi8(-127));
  store(codes, bytes);
  const __m256i sums = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1));
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

}  // namespace

void quantise(Activations kind, const float* x, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* out) noexcept {
  const int block = kind == Activations::int8_256 ? 256 : 32;
  const std::int64_t bytes = activation_row_bytes(kind, k);
  for (std::int64_t row = 0; row < rows; ++row, x += stride, out += bytes) {
    const ActivationRow to = activation_row(kind, out, k);
    auto* codes = const_cast<std::int8_t*>(to.codes);
    auto *scales = const_cast<float*>(to.scales), *sums = const_cast<float*>(to.sums);
    for (std::int64_t i = 0; i < k; i += block) {
      const float scale = block_scale(x + i, block);
      scales[i / block] = scale;
      for (std::int64_t b = i; b < i + block; b += 32) sums[b / 32] = static_cast<float>(block_codes(x + b, scale, codes + b)) * scale;
    }
  }
}

}  // namespace quern::cpu::avx2::packed
