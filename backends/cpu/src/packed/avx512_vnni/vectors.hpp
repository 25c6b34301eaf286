// Intrinsics under short names. Nothing of the standard library: its inline functions, compiled here, could be linked elsewhere.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define QUERN_VNNI_INLINE [[gnu::always_inline]] static inline
#define QUERN_VNNI_UNROLL _Pragma("GCC unroll 16")

namespace quern::cpu::avx512_vnni::packed {

using Byte = std::uint8_t;

constexpr int panel_rows = 16;  // the 32-bit lanes of a register: lane r belongs to row r of the panel

QUERN_VNNI_INLINE __m512i load(const void* p) { return _mm512_load_si512(p); }
QUERN_VNNI_INLINE __m512i set_bytes(int x) { return _mm512_set1_epi8(static_cast<char>(x)); }
/// Four bytes from memory in all lanes; with one use the compiler folds it into the instruction that needs it.
QUERN_VNNI_INLINE __m512i broadcast(const void* p) {
  int x;
  __builtin_memcpy(&x, p, 4);
  return _mm512_set1_epi32(x);
}
QUERN_VNNI_INLINE __m512 broadcast_float(const void* p) {
  float x;
  __builtin_memcpy(&x, p, 4);
  return _mm512_set1_ps(x);
}
/// Zeros that need no port. GCC 12 would copy one register of them to all others, and an Intel processor renames a few copies only.
QUERN_VNNI_INLINE __m512i zeros() {
  __m512i v;
  asm volatile("vpxord %0, %0, %0" : "=v"(v));
  return v;
}
/// sum += a * b, pairs of 16 bits; in place, where GCC 12 would move sums about.
QUERN_VNNI_INLINE void add_products(__m512i& sum, __m512i a, __m512i b) { asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b)); }
/// 16 halves as floats.
QUERN_VNNI_INLINE __m512 load_halves(const void* p) { return _mm512_cvtph_ps(_mm256_load_si256(static_cast<const __m256i*>(p))); }
/// mask ? a : b, bit by bit.
QUERN_VNNI_INLINE __m512i select(__m512i mask, __m512i a, __m512i b) { return _mm512_ternarylogic_epi32(mask, a, b, 0xca); }
/// One half as a float; subnormals too.
QUERN_VNNI_INLINE float half_at(const Byte* p) {
  std::uint16_t h;
  __builtin_memcpy(&h, p, 2);
  return _cvtsh_ss(h);
}
/// One bf16 as a float.
QUERN_VNNI_INLINE float bf16_at(const Byte* p) {
  std::uint16_t upper;
  __builtin_memcpy(&upper, p, 2);
  const std::uint32_t bits = static_cast<std::uint32_t>(upper) << 16;
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}
QUERN_VNNI_INLINE std::int64_t lesser(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
/// After the last use of a factor: its register may not become that product's sum, or sums wander and GCC 12 spills some on the way.
QUERN_VNNI_INLINE void keep_factor(__m512 v) { asm volatile("" : : "v"(v)); }
/// Loads behind this point stay behind it: GCC 12 otherwise begins the next block before this one's sums have left their registers.
QUERN_VNNI_INLINE void end_of_block() { asm volatile("" : : : "memory"); }
/// v / divisor, a power of two; the factor comes from memory, since where it is needed the registers are full.
template <int Divisor>
QUERN_VNNI_INLINE __m512 divided(__m512 v) {
  static constexpr float inverse = 1.0f / Divisor;
  const float* at = &inverse;
  asm volatile("" : "+r"(at));
  return _mm512_mul_ps(v, _mm512_set1_ps(*at));
}
/// Reads a byte of each line, in the order of their addresses.
template <int Lines>
QUERN_VNNI_INLINE void touch_lines(const Byte* p) {
  QUERN_VNNI_UNROLL
  for (int i = 0; i < Lines; ++i) static_cast<void>(*static_cast<const volatile Byte*>(p + 64 * i));
}
/// Asks for lines of a panel that come from memory, to the second level: the first has too few buffers for them and what is being read.
template <int Lines>
QUERN_VNNI_INLINE void prefetch_lines(const Byte* p) {
  QUERN_VNNI_UNROLL
  for (int i = 0; i < Lines; ++i) _mm_prefetch(reinterpret_cast<const char*>(p + 64 * i), _MM_HINT_T1);
}

}  // namespace quern::cpu::avx512_vnni::packed
