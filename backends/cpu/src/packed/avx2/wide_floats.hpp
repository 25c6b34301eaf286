// Tiles of 2 panels x 6 tokens against weights that were widened to f32: what floats.cpp and coded.hpp share.
//
// The sum of an output is taken in spans of k, and in each span in `Sums`: of k 0, Sums, 2 Sums .., of k 1, Sums + 1 .., each from zero, one fused
// multiply-add after the other. They are added to the total in order, or, where a span has a scale, multiplied with it and added. So one
// token has several chains of additions to work on, and a tile, which has a chain of each of its outputs, can keep 2 panels x 6 tokens in registers.
#pragma once

#include "multiply.hpp"

namespace quern::cpu::avx2::packed {
namespace {

QUERN_AVX2_INLINE __m256 broadcast_float(const Byte* x) { return _mm256_broadcast_ss(reinterpret_cast<const float*>(x)); }

template <int Sums, std::int64_t Span, bool Scaled>
struct WideFloats {
  static constexpr int tile_tokens = 6;
  static constexpr std::int64_t chunk = 256;
  static constexpr std::int64_t chunk_bytes = chunk / Span * (Span + Scaled) * 8 * 4 * tile_panels;

  /// A span of R panels: their scales, if it has any, then k by k the R lines of 8 rows, the k of one sum behind each other.
  template <int R>
  static constexpr std::int64_t span_floats = (Span + Scaled) * R * 8;
  template <int R>
  QUERN_AVX2_INLINE static float* line(float* span, std::int64_t i) {
    return span + (Scaled + i % Sums * (Span / Sums) + i / Sums) * R * 8;
  }

  template <int R, int C>
  QUERN_AVX2_INLINE static void step(const float* wide, const Byte* const* x_at, std::int64_t at, __m256 (&sum)[C * R]) {
    __m256 w[R];
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) w[r] = _mm256_load_ps(wide + r * 8);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const __m256 x = broadcast_float(x_at[c] + at);
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) sum[c * R + r] = _mm256_fmadd_ps(w[r], x, sum[c * R + r]);
    }
  }

  /// Sum n of a span; adds to main, [C][R][8]. `wide` are its lines, `count` of them.
  template <int R, int C>
  QUERN_AVX2_INLINE static void add_sum(const float* wide, std::int64_t count, const float* scales, const Byte* const* x, float* main) {
    __m256 sum[C * R];
#pragma GCC unroll 16
    for (int o = 0; o < C * R; ++o) sum[o] = _mm256_setzero_ps();
    std::int64_t i = 0;
#pragma GCC unroll 1
    for (; i + 2 <= count; i += 2) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) step<R, C>(wide + (i + j) * R * 8, x, 4 * Sums * (i + j), sum);
    }
#pragma GCC unroll 1
    for (; i < count; ++i) step<R, C>(wide + i * R * 8, x, 4 * Sums * i, sum);
#pragma GCC unroll 16
    for (int o = 0; o < C * R; ++o) {
      const __m256 total = _mm256_load_ps(main + 8 * o);
      _mm256_store_ps(main + 8 * o,
                      Scaled ? _mm256_fmadd_ps(sum[o], _mm256_load_ps(scales + o % R * 8), total) : _mm256_add_ps(total, sum[o]));
    }
  }

  /// R panels x C tokens over a chunk; adds to main, [C][R][8].
  template <int R, int C>
  [[gnu::noinline]] static void tile(const Byte* chunk_at, std::int64_t length, const Tokens& tokens, const TileSums& sums) {
    const auto* span = reinterpret_cast<const float*>(chunk_at);
#pragma GCC unroll 1
    for (std::int64_t from = 0; from < length; from += Span, span += span_floats<R>) {
#pragma GCC unroll 1
      for (std::int64_t n = 0; n < Sums; ++n) {
        const Byte* x[C];
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) {
          x[c] = tokens.code(c, 4 * (from + n));
          pin(x[c]);
        }
        add_sum<R, C>(span + (Scaled + n * (Span / Sums)) * R * 8, (least(Span, length - from) - n + Sums - 1) / Sums, span, x, sums.main);
      }
    }
  }
};

}  // namespace
}  // namespace quern::cpu::avx2::packed
