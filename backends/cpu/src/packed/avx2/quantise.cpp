// Rounds activations to int8. See ActivationRow in packed.hpp for the row that results. Its `starts` are
//   int8_32    for each 32 codes -8 times the two 16-bit sums that vpmaddubsw makes of them with ones: what takes off a bias of 8
//   int8_256   for each 16 codes -32 times these two sums; then for each 64 codes the 16-bit sums of either 32, which minimums multiply
// They are found once for all panels of all matrices: done for each 16 panels, that took 3 % of a prefill of Q4_K.
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
  const __m256i words0 = _mm256_packs_epi32(rounded(x, s), rounded(x + 8, s)),
                words1 = _mm256_packs_epi32(rounded(x + 16, s), rounded(x + 24, s));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // packs works within 128 bits
  __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words0, words1), order);
  bytes = _mm256_max_epi8(bytes, _mm256_set1_epi8(-127));
  store(codes, bytes);
  const __m256i sums = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1));
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

/// For each 128 bits the two 16-bit sums of their codes, those of k 0, 1, 4, 5 .. and of 2, 3, 6, 7 .., in each 32-bit lane.
QUERN_AVX2_INLINE __m256i sums_of_16(const std::int8_t* codes) {
  __m256i s = _mm256_maddubs_epi16(_mm256_set1_epi8(1), load(codes));
  s = _mm256_add_epi16(s, _mm256_shuffle_epi32(s, 0x4e));
  return _mm256_add_epi16(s, _mm256_shuffle_epi32(s, 0xb1));
}

void find_starts(Activations kind, const std::int8_t* codes, std::int64_t k, std::int32_t* starts) {
  std::int32_t* sums_of_32 = starts + k / 16;
  for (std::int64_t i = 0; i < k; i += 32) {
    const __m256i each = sums_of_16(codes + i);
    const __m128i all = _mm_add_epi16(_mm256_castsi256_si128(each), _mm256_extracti128_si256(each, 1));
    if (kind == Activations::int8_32) {
      starts[i / 32] = _mm_cvtsi128_si32(_mm_sub_epi16(_mm_setzero_si128(), _mm_slli_epi16(all, 3)));
      continue;
    }
    const __m256i negative = _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_slli_epi16(each, 5));
    starts[i / 16] = _mm256_extract_epi32(negative, 0);
    starts[i / 16 + 1] = _mm256_extract_epi32(negative, 4);
    const auto sum = static_cast<std::int16_t>(_mm_cvtsi128_si32(_mm_add_epi16(all, _mm_srli_epi32(all, 16))));
    __builtin_memcpy(reinterpret_cast<Byte*>(sums_of_32) + i / 32 * 2, &sum, 2);
  }
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
    find_starts(kind, codes, k, const_cast<std::int32_t*>(to.starts));
  }
}

}  // namespace quern::cpu::avx2::packed
