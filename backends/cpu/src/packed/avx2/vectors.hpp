// 256-bit helpers of the packed kernels.
//
// All in an anonymous namespace and always inlined, so that no object built with AVX2 lends code to one that runs everywhere; for
// the same reason nothing here or in this folder calls a function template of the standard library.
#pragma once

#include "../packed.hpp"

#include <immintrin.h>

#define QUERN_AVX2_INLINE [[gnu::always_inline]] inline

namespace quern::cpu::avx2::packed {
namespace {

using Byte = std::uint8_t;

QUERN_AVX2_INLINE __m256i load(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }
QUERN_AVX2_INLINE __m256i load_unaligned(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
QUERN_AVX2_INLINE void store(void* p, __m256i v) { _mm256_store_si256(static_cast<__m256i*>(p), v); }
QUERN_AVX2_INLINE __m128i load_half_vector(const void* p) { return _mm_load_si128(static_cast<const __m128i*>(p)); }

/// Four bytes at p in all eight lanes: the activations of 4 consecutive k, against 8 rows. Costs a load and no vector port.
QUERN_AVX2_INLINE __m256i broadcast4(const void* p) {
  int word;
  __builtin_memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}

/// 32 codes of nibbles in `low`'s low halves and of higher bits that stand where they belong in `rest`; 32-byte aligned.
QUERN_AVX2_INLINE void put_codes(Byte* to, __m256i low, __m256i rest, int mask) {
  const __m256i higher = _mm256_and_si256(rest, _mm256_set1_epi8(static_cast<char>(mask)));
  store(to, _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)), higher));
}

/// Eight f16 at p, 16-byte aligned.
QUERN_AVX2_INLINE __m256 load_halves(const void* p) { return _mm256_cvtph_ps(load_half_vector(p)); }

/// Stops the compiler from moving an addition past this point. GCC 12 otherwise computes all products of a block first, runs out of
/// registers and spills them, which costs 40 %.
QUERN_AVX2_INLINE void pin(__m256i& v) { asm("" : "+x"(v)); }
QUERN_AVX2_INLINE void pin(__m256& v) { asm("" : "+x"(v)); }

/// Keeps an address in a register of its own: GCC otherwise derives it from its neighbours with an addition for each load.
QUERN_AVX2_INLINE void pin(const Byte*& p) { asm("" : "+r"(p)); }

/// Before and after a step whose sums live in memory: without it GCC keeps them in registers and spills what the inner loop needs.
QUERN_AVX2_INLINE void sums_are_in_memory(void* sums) { asm volatile("" : : "r"(sums) : "memory"); }

/// Asks for what a direct kernel reads 8 KiB later: far enough for memory, and to the second level, since first-level requests for all
/// of it would be more than the core can have under way.
QUERN_AVX2_INLINE void prefetch_far(const void* p) { _mm_prefetch(static_cast<const char*>(p) + 8192, _MM_HINT_T1); }
/// Whether blocks against C tokens are read faster so. Zen 4 fetches a single stream ahead by itself: one token of Q8_0 reads 28 to 30 GB/s of
/// 32 when nothing is asked for, and 22 to 25 when it is; Q4_K and Q6_K 1 to 3 more, too.
template <int C>
QUERN_AVX2_INLINE bool asks_ahead() {
  return C > 2 || !__builtin_cpu_is("amd");
}

QUERN_AVX2_INLINE std::uint32_t word_at(const void* p) {
  std::uint32_t w;
  __builtin_memcpy(&w, p, 4);
  return w;
}
QUERN_AVX2_INLINE std::uint16_t half_at(const void* p) {
  std::uint16_t h;
  __builtin_memcpy(&h, p, 2);
  return h;
}
QUERN_AVX2_INLINE float half_value(std::uint16_t h) { return _cvtsh_ss(h); }

QUERN_AVX2_INLINE std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
QUERN_AVX2_INLINE std::int64_t most(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
QUERN_AVX2_INLINE constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

/// Copies the first `rows` of 8 floats.
QUERN_AVX2_INLINE void store_rows(float* y, __m256 v, std::int64_t rows) {
  if (rows >= 8) return _mm256_storeu_ps(y, v);
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  _mm256_maskstore_ps(y, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(rows)), lane), v);
}

}  // namespace
}  // namespace quern::cpu::avx2::packed
