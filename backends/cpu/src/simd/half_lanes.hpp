// f16 and bf16, sixteen at a time: by instruction where there is one, else by the portable conversions.
#pragma once

#include "../half.hpp"
#include "lanes.hpp"

namespace quern::cpu::QUERN_CPU_ISA {

QUERN_CPU_INLINE std::uint16_t half_bits(const std::uint8_t* p) {
  std::uint16_t h;
  __builtin_memcpy(&h, p, 2);
  return h;
}
QUERN_CPU_INLINE float load_half(const std::uint8_t* p) {
#if defined(__F16C__)
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half_bits(p))));
#else
  return half_to_float(half_bits(p));
#endif
}

QUERN_CPU_INLINE Lanes load_halves(const std::uint8_t* p) {
#if defined(QUERN_CPU_ISA_avx512)
  return {{_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}};
#elif defined(__F16C__)
  return {{_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
           _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16)))}};
#else
  alignas(64) float each[16];
  for (int i = 0; i < 16; ++i) each[i] = half_to_float(half_bits(p + 2 * i));
  return load(each);
#endif
}

#if defined(__F16C__)
QUERN_CPU_INLINE Lanes from_halves(__m256i halves) {
#if defined(QUERN_CPU_ISA_avx512)
  return {{_mm512_cvtph_ps(halves)}};
#else
  return {{_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))}};
#endif
}
#endif

QUERN_CPU_INLINE Lanes load_bfloats(const std::uint8_t* p) {
#if defined(QUERN_CPU_ISA_avx512)
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {{_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))}};
#elif defined(QUERN_CPU_ISA_avx2)
  Lanes r;
  QUERN_CPU_EACH r.v[e] =
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * e))), 16));
  return r;
#else
  alignas(64) float each[16];
  for (int i = 0; i < 16; ++i) each[i] = bfloat_to_float(half_bits(p + 2 * i));
  return load(each);
#endif
}

/// Rounds to nearest even; the F16C instruction and float_to_half agree in every bit but the payload of a NaN.
QUERN_CPU_INLINE void store_halves(std::uint8_t* p, const float* x) {
#if defined(QUERN_CPU_ISA_avx512)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(_mm512_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__)
  for (int e = 0; e < 2; ++e)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 16 * e),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + 8 * e), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
  for (int i = 0; i < 16; ++i) {
    const std::uint16_t h = float_to_half(x[i]);
    __builtin_memcpy(p + 2 * i, &h, 2);
  }
#endif
}

}  // namespace quern::cpu::QUERN_CPU_ISA
