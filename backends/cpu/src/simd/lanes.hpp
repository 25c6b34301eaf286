// Sixteen f32 lanes: one AVX-512 register, two AVX2 or four SSE2 registers. The same order of operations in all three.
//
// fma() rounds once under AVX2 and AVX-512 and twice under SSE2 (portable). sum() adds lane i and i + 8, then i and i + 4,
// i and i + 2, i and i + 1.
#pragma once

#include <cstdint>
#include <immintrin.h>

#ifndef QUERN_CPU_ISA
#error "QUERN_CPU_ISA names the instruction set of this translation unit"
#endif

namespace quern::cpu::QUERN_CPU_ISA {

#define QUERN_CPU_INLINE [[gnu::always_inline]] static inline

#if defined(QUERN_CPU_ISA_avx512)
using Register = __m512;
constexpr int registers = 1;
constexpr int register_floats = 16;
#define QUERN_CPU_OP(name, suffix) _mm512_##name##_##suffix
#elif defined(QUERN_CPU_ISA_avx2)
using Register = __m256;
constexpr int registers = 2;
constexpr int register_floats = 8;
#define QUERN_CPU_OP(name, suffix) _mm256_##name##_##suffix
#else
using Register = __m128;
constexpr int registers = 4;
constexpr int register_floats = 4;
#define QUERN_CPU_OP(name, suffix) _mm_##name##_##suffix
#endif

struct Lanes {
  Register v[registers];
};

/// Before loops over arrays of Lanes: unrolled late, or not at all, the arrays would stay on the stack.
#define QUERN_CPU_UNROLL _Pragma("GCC unroll 8")
#define QUERN_CPU_EACH QUERN_CPU_UNROLL for (int e = 0; e < registers; ++e)

QUERN_CPU_INLINE Lanes broadcast(float x) {
  Lanes r;
  QUERN_CPU_EACH r.v[e] = QUERN_CPU_OP(set1, ps)(x);
  return r;
}
QUERN_CPU_INLINE Lanes zero() { return broadcast(0.0f); }
QUERN_CPU_INLINE Lanes load(const float* p) {
  Lanes r;
  QUERN_CPU_EACH r.v[e] = QUERN_CPU_OP(loadu, ps)(p + e * register_floats);
  return r;
}
QUERN_CPU_INLINE void store(float* p, Lanes x) { QUERN_CPU_EACH QUERN_CPU_OP(storeu, ps)(p + e * register_floats, x.v[e]); }
/// Makes the compiler keep x in registers: it would else fold one load into each instruction that uses it, and loads are the
/// scarcer port.
QUERN_CPU_INLINE void in_register(Lanes& x) {
#if defined(QUERN_CPU_ISA_avx512)
  __asm__("" : "+v"(x.v[0]));
#elif defined(QUERN_CPU_ISA_avx2)
  __asm__("" : "+x"(x.v[0]), "+x"(x.v[1]));
#else
  static_cast<void>(x);
#endif
}
/// The first n of 16, the rest zero.
QUERN_CPU_INLINE Lanes load_part(const float* p, int n) {
  alignas(64) float part[16] = {};
  for (int i = 0; i < n; ++i) part[i] = p[i];
  return load(part);
}
QUERN_CPU_INLINE void store_part(float* p, Lanes x, int n) {
  alignas(64) float part[16];
  store(part, x);
  for (int i = 0; i < n; ++i) p[i] = part[i];
}

QUERN_CPU_INLINE Lanes add(Lanes a, Lanes b) {
  QUERN_CPU_EACH a.v[e] = QUERN_CPU_OP(add, ps)(a.v[e], b.v[e]);
  return a;
}
QUERN_CPU_INLINE Lanes sub(Lanes a, Lanes b) {
  QUERN_CPU_EACH a.v[e] = QUERN_CPU_OP(sub, ps)(a.v[e], b.v[e]);
  return a;
}
QUERN_CPU_INLINE Lanes mul(Lanes a, Lanes b) {
  QUERN_CPU_EACH a.v[e] = QUERN_CPU_OP(mul, ps)(a.v[e], b.v[e]);
  return a;
}
QUERN_CPU_INLINE Lanes div(Lanes a, Lanes b) {
  QUERN_CPU_EACH a.v[e] = QUERN_CPU_OP(div, ps)(a.v[e], b.v[e]);
  return a;
}
/// A NaN in b is kept, one in a is dropped.
QUERN_CPU_INLINE Lanes max(Lanes a, Lanes b) {
  QUERN_CPU_EACH a.v[e] = QUERN_CPU_OP(max, ps)(a.v[e], b.v[e]);
  return a;
}
QUERN_CPU_INLINE Lanes min(Lanes a, Lanes b) {
  QUERN_CPU_EACH a.v[e] = QUERN_CPU_OP(min, ps)(a.v[e], b.v[e]);
  return a;
}
QUERN_CPU_INLINE Lanes square_root(Lanes a) {
  QUERN_CPU_EACH a.v[e] = QUERN_CPU_OP(sqrt, ps)(a.v[e]);
  return a;
}
/// x where c is not 0 (NaN is not), else 0.
QUERN_CPU_INLINE Lanes where_not_zero(Lanes c, Lanes x) {
#if defined(QUERN_CPU_ISA_avx512)
  x.v[0] = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(c.v[0], _mm512_setzero_ps(), _CMP_NEQ_UQ), x.v[0]);
#elif defined(QUERN_CPU_ISA_avx2)
  QUERN_CPU_EACH x.v[e] = _mm256_and_ps(_mm256_cmp_ps(c.v[e], _mm256_setzero_ps(), _CMP_NEQ_UQ), x.v[e]);
#else
  QUERN_CPU_EACH x.v[e] = _mm_and_ps(_mm_cmpneq_ps(c.v[e], _mm_setzero_ps()), x.v[e]);
#endif
  return x;
}
QUERN_CPU_INLINE Lanes absolute(Lanes x) {
  QUERN_CPU_EACH x.v[e] = QUERN_CPU_OP(andnot, ps)(QUERN_CPU_OP(set1, ps)(-0.0f), x.v[e]);
  return x;
}
/// size, which has no sign, with the sign of x.
QUERN_CPU_INLINE Lanes with_sign(Lanes size, Lanes x) {
  QUERN_CPU_EACH size.v[e] = QUERN_CPU_OP(or, ps)(size.v[e], QUERN_CPU_OP(and, ps)(QUERN_CPU_OP(set1, ps)(-0.0f), x.v[e]));
  return size;
}
/// a where x has its sign, else b.
QUERN_CPU_INLINE Lanes by_sign(Lanes x, Lanes a, Lanes b) {
#if defined(QUERN_CPU_ISA_avx512)
  b.v[0] = _mm512_mask_mov_ps(b.v[0], _mm512_movepi32_mask(_mm512_castps_si512(x.v[0])), a.v[0]);
#elif defined(QUERN_CPU_ISA_avx2)
  QUERN_CPU_EACH b.v[e] = _mm256_blendv_ps(b.v[e], a.v[e], x.v[e]);
#else
  QUERN_CPU_EACH {
    const __m128 negative = _mm_castsi128_ps(_mm_srai_epi32(_mm_castps_si128(x.v[e]), 31));
    b.v[e] = _mm_or_ps(_mm_and_ps(negative, a.v[e]), _mm_andnot_ps(negative, b.v[e]));
  }
#endif
  return b;
}
/// a * b + c.
QUERN_CPU_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) {
#if defined(__FMA__)
  QUERN_CPU_EACH a.v[e] = QUERN_CPU_OP(fmadd, ps)(a.v[e], b.v[e], c.v[e]);
  return a;
#else
  return add(mul(a, b), c);
#endif
}

QUERN_CPU_INLINE float sum4(__m128 s) {
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}
QUERN_CPU_INLINE float sum(Lanes x) {
#if defined(QUERN_CPU_ISA_avx512)
  const __m256 s = _mm256_add_ps(_mm512_castps512_ps256(x.v[0]), _mm512_extractf32x8_ps(x.v[0], 1));
  return sum4(_mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
#elif defined(QUERN_CPU_ISA_avx2)
  const __m256 s = _mm256_add_ps(x.v[0], x.v[1]);
  return sum4(_mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
#else
  return sum4(_mm_add_ps(_mm_add_ps(x.v[0], x.v[2]), _mm_add_ps(x.v[1], x.v[3])));
#endif
}
/// out[i] = sum(x[i]), in the same order.
QUERN_CPU_INLINE void sum_eight(const Lanes (&x)[8], float* out) {
#if defined(QUERN_CPU_ISA_avx512)
  __m512 half[4], quarter[2];
  for (int i = 0; i < 4; ++i)  // two sums of 8 lanes a register
    half[i] = _mm512_add_ps(_mm512_shuffle_f32x4(x[2 * i].v[0], x[2 * i + 1].v[0], 0x44),
                            _mm512_shuffle_f32x4(x[2 * i].v[0], x[2 * i + 1].v[0], 0xee));
  for (int i = 0; i < 2; ++i)  // four sums of 4
    quarter[i] =
        _mm512_add_ps(_mm512_shuffle_f32x4(half[2 * i], half[2 * i + 1], 0x88), _mm512_shuffle_f32x4(half[2 * i], half[2 * i + 1], 0xdd));
  // In each 128-bit part: two elements of a sum of quarter[0], two of quarter[1].
  const __m512 pairs = _mm512_add_ps(_mm512_shuffle_ps(quarter[0], quarter[1], 0x44), _mm512_shuffle_ps(quarter[0], quarter[1], 0xee));
  const __m512 all = _mm512_add_ps(pairs, _mm512_shuffle_ps(pairs, pairs, 0xb1));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0);
  _mm256_storeu_ps(out, _mm512_castps512_ps256(_mm512_permutexvar_ps(order, all)));
#else
  for (int i = 0; i < 8; ++i) out[i] = sum(x[i]);
#endif
}
/// NaN beside a number: whichever comes first in the order of sum() is dropped.
QUERN_CPU_INLINE float largest4(__m128 m) {
  m = _mm_max_ps(_mm_movehl_ps(m, m), m);
  return _mm_cvtss_f32(_mm_max_ss(_mm_shuffle_ps(m, m, 1), m));
}
QUERN_CPU_INLINE float largest(Lanes x) {
#if defined(QUERN_CPU_ISA_avx512)
  const __m256 m = _mm256_max_ps(_mm512_extractf32x8_ps(x.v[0], 1), _mm512_castps512_ps256(x.v[0]));
  return largest4(_mm_max_ps(_mm256_extractf128_ps(m, 1), _mm256_castps256_ps128(m)));
#elif defined(QUERN_CPU_ISA_avx2)
  const __m256 m = _mm256_max_ps(x.v[1], x.v[0]);
  return largest4(_mm_max_ps(_mm256_extractf128_ps(m, 1), _mm256_castps256_ps128(m)));
#else
  return largest4(_mm_max_ps(_mm_max_ps(x.v[3], x.v[1]), _mm_max_ps(x.v[2], x.v[0])));
#endif
}
/// x in lanes first .. end, `other` in the rest.
QUERN_CPU_INLINE Lanes within(Lanes x, std::int64_t first, std::int64_t end, float other) {
#if defined(QUERN_CPU_ISA_avx512)
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __mmask16 in = _mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(static_cast<int>(first))) &
                       _mm512_cmplt_epi32_mask(lane, _mm512_set1_epi32(static_cast<int>(end)));
  x.v[0] = _mm512_mask_mov_ps(_mm512_set1_ps(other), in, x.v[0]);
  return x;
#elif defined(QUERN_CPU_ISA_avx2)
  const __m256i before = _mm256_set1_epi32(static_cast<int>(first) - 1), behind = _mm256_set1_epi32(static_cast<int>(end));
  QUERN_CPU_EACH {
    const __m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(8 * e));
    const __m256i in = _mm256_and_si256(_mm256_cmpgt_epi32(lane, before), _mm256_cmpgt_epi32(behind, lane));
    x.v[e] = _mm256_blendv_ps(_mm256_set1_ps(other), x.v[e], _mm256_castsi256_ps(in));
  }
  return x;
#else
  alignas(64) float each[16];
  store(each, x);
  for (int i = 0; i < 16; ++i) each[i] = i >= first && i < end ? each[i] : other;
  return load(each);
#endif
}

/// Sixteen bytes as floats.
QUERN_CPU_INLINE Lanes from_unsigned(__m128i bytes) {
  Lanes r;
#if defined(QUERN_CPU_ISA_avx512)
  r.v[0] = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
#elif defined(QUERN_CPU_ISA_avx2)
  r.v[0] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  r.v[1] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)));
#else
  const __m128i none = _mm_setzero_si128(), low = _mm_unpacklo_epi8(bytes, none), high = _mm_unpackhi_epi8(bytes, none);
  r.v[0] = _mm_cvtepi32_ps(_mm_unpacklo_epi16(low, none));
  r.v[1] = _mm_cvtepi32_ps(_mm_unpackhi_epi16(low, none));
  r.v[2] = _mm_cvtepi32_ps(_mm_unpacklo_epi16(high, none));
  r.v[3] = _mm_cvtepi32_ps(_mm_unpackhi_epi16(high, none));
#endif
  return r;
}
QUERN_CPU_INLINE Lanes from_signed(__m128i bytes) {
  Lanes r;
#if defined(QUERN_CPU_ISA_avx512)
  r.v[0] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
#elif defined(QUERN_CPU_ISA_avx2)
  r.v[0] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  r.v[1] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
#else
  // Each byte goes to the top of a 32-bit word, from where an arithmetic shift brings it down with its sign.
  const __m128i low = _mm_unpacklo_epi8(bytes, bytes), high = _mm_unpackhi_epi8(bytes, bytes);
  r.v[0] = _mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(low, low), 24));
  r.v[1] = _mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpackhi_epi16(low, low), 24));
  r.v[2] = _mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(high, high), 24));
  r.v[3] = _mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpackhi_epi16(high, high), 24));
#endif
  return r;
}

/// 2^x for whole x in [-151, 128], times y in [0.7, 1.42]: two exact factors, so that a subnormal result is rounded once. At -151 that is 0,
/// as for the hidden keys of attention: not left to the arithmetic, since Intel's takes microcode for each result that underflows.
QUERN_CPU_INLINE Lanes times_power(Lanes y, Lanes x) {
  QUERN_CPU_EACH {
#if defined(QUERN_CPU_ISA_avx512)
    y.v[e] = _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x.v[e], _mm512_set1_ps(-151.0f), _CMP_NLE_UQ), y.v[e], x.v[e]);
#elif defined(QUERN_CPU_ISA_avx2)
    y.v[e] = _mm256_and_ps(y.v[e], _mm256_cmp_ps(x.v[e], _mm256_set1_ps(-151.0f), _CMP_NLE_UQ));
    const __m256i n = _mm256_cvtps_epi32(x.v[e]), half = _mm256_srai_epi32(n, 1), bias = _mm256_set1_epi32(127);
    y.v[e] = _mm256_mul_ps(y.v[e], _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
    y.v[e] = _mm256_mul_ps(y.v[e], _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(n, half), bias), 23)));
#else
    y.v[e] = _mm_and_ps(y.v[e], _mm_cmpnle_ps(x.v[e], _mm_set1_ps(-151.0f)));
    const __m128i n = _mm_cvtps_epi32(x.v[e]), half = _mm_srai_epi32(n, 1), bias = _mm_set1_epi32(127);
    y.v[e] = _mm_mul_ps(y.v[e], _mm_castsi128_ps(_mm_slli_epi32(_mm_add_epi32(half, bias), 23)));
    y.v[e] = _mm_mul_ps(y.v[e], _mm_castsi128_ps(_mm_slli_epi32(_mm_add_epi32(_mm_sub_epi32(n, half), bias), 23)));
#endif
  }
  return y;
}

/// exp(x) = 2^power (1 + rest).
struct Exponent {
  Lanes power, rest;
};
/// x in [-105, 89]. The remainder |r| <= ln 2 / 2 goes through the Taylor sum to r^7, whose next term is 0.1 ulp of 1 + rest.
QUERN_CPU_INLINE Exponent exponent_of(Lanes x) {
  const Lanes magic = broadcast(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
  const Lanes n = sub(fma(x, broadcast(1.44269504f), magic), magic);
  // ln 2 in two parts, the first of 9 bits, so that n times it is exact.
  Lanes r = fma(n, broadcast(-0.693359375f), x);
  r = fma(n, broadcast(2.12194440e-4f), r);
  Lanes p = broadcast(1.0f / 5040);
  p = fma(p, r, broadcast(1.0f / 720));
  p = fma(p, r, broadcast(1.0f / 120));
  p = fma(p, r, broadcast(1.0f / 24));
  p = fma(p, r, broadcast(1.0f / 6));
  p = fma(p, r, broadcast(0.5f));
  return {n, fma(mul(r, r), p, r)};
}

/// Within 1.1 ulp (1.6 portable); 0 below -104, infinity above 88.73, NaN stays NaN.
QUERN_CPU_INLINE Lanes exponential(Lanes x) {
  const Exponent e = exponent_of(min(broadcast(89.0f), max(broadcast(-105.0f), x)));
  return times_power(add(e.rest, broadcast(1.0f)), e.power);
}

/// (exp(2 |x|) - 1) / (exp(2 |x|) + 1) with the sign of x; NaN stays NaN. From 10 on it is 1. Within 5 u (7 portable) of its size, u = 2^-24:
/// where power is 0, r is exact and rest within 2 u (3): u of the last addition, 0.16 times 3 u of r^2 times the sum, 0.3 u of the next term;
/// else exp(2 |x|) - 1 = 2^power rest + (2^power - 1) is at least 0.41. At power = 1, where that weighs most, 2 rest is off by 0.29 times 4 u and
/// r by 0.7 times 0.6 u: 3.6 u with the sum, 4.6 u (5.6) in all. The quotient takes up 0.83 of that, and adds 1.2 u.
QUERN_CPU_INLINE Lanes hyperbolic_tangent(Lanes x) {
  const Lanes size = absolute(x), one = broadcast(1.0f);
  const Exponent e = exponent_of(min(broadcast(20.0f), add(size, size)));
  const Lanes power = times_power(one, e.power), less_one = fma(power, e.rest, sub(power, one));
  return with_sign(div(less_one, add(less_one, broadcast(2.0f))), x);
}

}  // namespace quern::cpu::QUERN_CPU_ISA
