// Rounds activations to int8 or bf16. See ActivationRow in packed.hpp for the row that results. Its `starts`, of int8_256: for each 16 codes
// -32 times their sum, or -128 times where they belong to the odd 32 of 64 (what takes off Q6_K's bias: codes.hpp); then for each 64 codes
// the 16-bit sums of either 32, which minimums multiply. Made once with the row: made for each part of a product, they took 4 % of a prefill.
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

/// 16 codes, in 32-bit lanes; zeros where the mask is not set. The scale of a block of subnormals is so coarse that a quotient can
/// pass 127.
QUERN_VNNI_INLINE __m512i round_codes(const float* x, __m512 scale, __mmask16 mask) {
  const __m512i code = _mm512_maskz_cvtps_epi32(mask, _mm512_div_ps(_mm512_loadu_ps(x), scale));
  return _mm512_max_epi32(_mm512_min_epi32(code, _mm512_set1_epi32(127)), _mm512_set1_epi32(-127));
}

template <int Block>
QUERN_VNNI_INLINE void quantise_row(const float* x, std::int64_t k, std::int8_t* codes, float* scales, float* sums) {
  for (std::int64_t i = 0; i < k; i += Block) {
    const float scale = block_scale<Block>(x + i);
    const __mmask16 mask = scale > 0 ? 0xffff : 0;  // not of zeros, not of NaN
    const __m512 divisor = _mm512_set1_ps(scale);
    scales[i / Block] = scale;
    for (std::int64_t b = i; b < i + Block; b += 32) {
      const __m512i low = round_codes(x + b, divisor, mask), high = round_codes(x + b + 16, divisor, mask);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + b), _mm512_cvtepi32_epi8(low));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + b + 16), _mm512_cvtepi32_epi8(high));
      sums[b / 32] = static_cast<float>(_mm512_reduce_add_epi32(_mm512_add_epi32(low, high))) * scale;
    }
  }
}

void find_starts(const std::int8_t* codes, std::int64_t k, std::int32_t* starts) noexcept {
  const __m512i factor = _mm512_setr_epi32(-32, -32, -128, -128, -32, -32, -128, -128, -32, -32, -128, -128, -32, -32, -128, -128);
  for (std::int64_t i = 0; i < k; i += 256) {
    _mm512_storeu_si512(starts + i / 16, _mm512_mullo_epi32(sums_of_16(codes + i, 256), factor));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(starts + k / 16 + i / 64), _mm256_cvtepi32_epi16(_mm512_castsi512_si256(sums_of_32(codes + i, 256))));
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
    if (kind == Activations::int8_256) {
      quantise_row<256>(x, k, codes, scales, sums);
      find_starts(codes, k, const_cast<std::int32_t*>(to.starts));
    } else {
      quantise_row<32>(x, k, codes, scales, sums);
    }
  }
}

}  // namespace quern::cpu::avx512_vnni::packed
