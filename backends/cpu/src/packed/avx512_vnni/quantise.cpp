// Rounds activations to int8 or bf16. See ActivationRow in packed.hpp for the row that results. Its `starts`, of int8_256, for each 256 codes:
//   direct, wide  for each 16 codes -32 times their sum, which takes off Q6_K's bias; `direct` -128 times for the odd 32 of 64 (codes.hpp)
//   pairs         for each 64 codes the 16-bit sums of either 32, which minimums multiply
// and behind them, for each 512 codes, a bit each of Q4_K, Q5_K and Q6_K: no sum of products with their codes can pass 16 bits (of 32 codes
// it is at most the largest code times the sum of the positive ones, or of the negative ones; of Q6_K's 16 times that of the magnitudes),
// and one that the floats in which large sums of Q4_K and Q5_K are added for 256 codes, as they are added, cannot pass 2^24 and be rounded.
// Made once with the row: made for each part of a product, they took 4 % of a prefill.
//
// Bits of magnitudes compare as integers, and so NaN and infinity come out greatest.
#include "layouts.hpp"
#include "sums.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

QUERN_VNNI_INLINE __m512i magnitude_bits(const float* x) {
  return _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(x)), _mm512_set1_epi32(0x7fffffff));
}

/// Scale of a block; NaN if something in it is not finite.
template <int Block>
QUERN_VNNI_INLINE float block_scale(const float* x) {
  __m512i most = magnitude_bits(x);
  QUERN_VNNI_UNROLL
  for (int i = 16; i < Block; i += 16) most = _mm512_max_epi32(most, magnitude_bits(x + i));
  const int bits = _mm512_reduce_max_epi32(most);
  float greatest;
  __builtin_memcpy(&greatest, &bits, 4);
  return bits >= 0x7f800000 ? __builtin_nanf("") : greatest / 127.0f;
}

/// Divides by a block's scale. Divisions of 16 floats take Intel's processors 16 clocks, and were 2 % of a prefill; what stands for one here
/// gives the same bits (Markstein, 1990): a quotient within an ulp of the true one, plus its remainder, which is exact, times the
/// reciprocal rounded to nearest, is the quotient rounded to nearest. The first product is within two ulps, so there are two steps.
struct Divisor {
  __m512 scale, inverse;
  bool steps;  // where no remainder that decides a code is subnormal: a quotient of 1/4 to 128 leaves 2^-50 of the scale or nothing

  explicit Divisor(float s) noexcept : scale(_mm512_set1_ps(s)), inverse(_mm512_set1_ps(1.0f / s)), steps(s > 0x1p-70f && s < 0x1p100f) {}
  QUERN_VNNI_INLINE __m512 divide(const Divisor& by, __m512 x) {
    if (!by.steps) return _mm512_div_ps(x, by.scale);
    const __m512 near = _mm512_mul_ps(x, by.inverse);
    const __m512 nearer = _mm512_fmadd_ps(_mm512_fnmadd_ps(near, by.scale, x), by.inverse, near);
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(nearer, by.scale, x), by.inverse, nearer);
  }
};

/// 16 codes, in 32-bit lanes; zeros where the mask is not set. The scale of a block of subnormals is so coarse that a quotient can
/// pass 127.
QUERN_VNNI_INLINE __m512i round_codes(const float* x, const Divisor& by, __mmask16 mask) {
  const __m512i code = _mm512_maskz_cvtps_epi32(mask, Divisor::divide(by, _mm512_loadu_ps(x)));
  return _mm512_max_epi32(_mm512_min_epi32(code, _mm512_set1_epi32(127)), _mm512_set1_epi32(-127));
}

/// Codes of a block; its scale.
template <int Block>
QUERN_VNNI_INLINE float quantise_block(const float* x, std::int8_t* codes) {
  const float scale = block_scale<Block>(x);
  const __mmask16 mask = scale > 0 ? 0xffff : 0;  // not of zeros, not of NaN
  const Divisor by(scale);
  QUERN_VNNI_UNROLL
  for (int i = 0; i < Block; i += 16)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), _mm512_cvtepi32_epi8(round_codes(x + i, by, mask)));
  return scale;
}

void quantise_32(const float* x, std::int64_t k, std::int8_t* codes, float* scales, float* sums, std::int32_t* starts) noexcept {
  for (std::int64_t i = 0; i < k; i += 32) {
    scales[i / 32] = quantise_block<32>(x + i, codes + i);
    const __m512i words = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i)));
    const int sum = _mm512_reduce_add_epi32(_mm512_madd_epi16(words, _mm512_set1_epi16(1)));
    sums[i / 32] = static_cast<float>(sum) * scales[i / 32];
    starts[i / 32] = -sum;
  }
}

void quantise_256(const float* x, std::int64_t k, std::int8_t* codes, float* scales, float* sums, std::int32_t* starts) noexcept {
  auto* small = reinterpret_cast<std::uint32_t*>(starts + k / 256 * Starts::words);
  for (std::int64_t i = 0; i < (k + 16383) / 16384 * Starts::small_words; ++i) small[i] = ~0u;
  for (std::int64_t i = 0; i < k; i += 256, starts += Starts::words) {
    const float scale = scales[i / 256] = quantise_block<256>(x + i, codes + i);
    const __m512i of_16 = sums_of_16(codes + i, 256), magnitudes = sums_of_16<true>(codes + i, 256), of_32 = sums_of_two(of_16);
    const __m512i wide = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(of_16, 5));
    _mm512_storeu_si512(starts + Starts::direct, _mm512_mask_slli_epi32(wide, 0xcccc, wide, 2));
    _mm512_storeu_si512(starts + Starts::wide, wide);
    const __m256i compact = _mm512_castsi512_si256(_mm512_maskz_compress_epi32(0x5555, of_32));
    _mm256_storeu_ps(sums + i / 32, _mm256_mul_ps(_mm256_cvtepi32_ps(compact), _mm256_set1_ps(scale)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(starts + Starts::pairs), _mm256_cvtepi32_epi16(compact));
    const std::int32_t one_sign = _mm512_reduce_max_epi32(_mm512_add_epi32(sums_of_two(magnitudes), _mm512_abs_epi32(of_32))) / 2;
    const std::int32_t most[] = {one_sign, one_sign, _mm512_reduce_max_epi32(magnitudes)};
    const std::int64_t part = i / Starts::small_part;
    for (int format = 0; format < 3; ++format)
      if (most[format] * Starts::largest_codes[format] > 32767) small[part / 32 * Starts::small_words + format] &= ~(1u << part % 32);
    constexpr std::int32_t exact = (1 << 24) / (31 * 63);
    if (8 * one_sign > exact && (_mm512_reduce_add_epi32(magnitudes) + __builtin_abs(_mm512_reduce_add_epi32(of_16))) / 2 > exact)
      small[part / 32 * Starts::small_words + Starts::exact_word] &= ~(1u << part % 32);
  }
}

/// To nearest even; a NaN stays one. What is behind k in the last line is not zeroed, but for the other half of a pair.
QUERN_VNNI_INLINE void round_bf16(const float* x, std::int64_t k, std::uint16_t* out) {
  const __m512i half = _mm512_set1_epi32(0x7fff), one = _mm512_set1_epi32(1);
  for (std::int64_t i = 0; i < k; i += 16) {
    const __mmask16 mask = static_cast<__mmask16>(k - i >= 16 ? 0xffff : (1 << (k - i)) - 1);
    const __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
    const __m512i bits = _mm512_castps_si512(v), even = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(half, even)), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i result = _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(0x7fc0));
    _mm512_mask_cvtepi32_storeu_epi16(out + i, static_cast<__mmask16>(mask | mask << 1), result);
  }
}

}  // namespace

void quantise(Activations kind, const float* x, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* out) noexcept {
  const std::int64_t bytes = activation_row_bytes(kind, k);
  for (std::int64_t row = 0; row < rows; ++row, x += stride, out += bytes) {
    if (kind == Activations::bf16) {
      round_bf16(x, k, reinterpret_cast<std::uint16_t*>(out));
      continue;
    }
    const ActivationRow to = activation_row(kind, out, k);
    auto* codes = const_cast<std::int8_t*>(to.codes);
    auto *scales = const_cast<float*>(to.scales), *sums = const_cast<float*>(to.sums);
    if (kind == Activations::int8_256) quantise_256(x, k, codes, scales, sums, const_cast<std::int32_t*>(to.starts));
    else quantise_32(x, k, codes, scales, sums, const_cast<std::int32_t*>(to.starts));
  }
}

}  // namespace quern::cpu::avx512_vnni::packed
