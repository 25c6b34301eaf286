// Weights whose codes stand for floats, with an f32 as the scale of a block: F8_128, NF4_64, FP4_64, against f32 activations, or bf16 ones in pairs.
//
// Panels are those of ../coded_panels.hpp. Of each block an output has a chain of fused multiply-adds in the order of k, from zero; that times
// the scale is added to its total. So the inner loop has no scales, and registers hold only the chains: totals wait in memory. All tiles give the same bits. With a scale for each weight instead, one token of
// F8_128 read 52 % of what a plain read gives on Zen 5, and NF4_64 42 %.
#pragma once

#include "../coded_panels.hpp"
#include "driver.hpp"

#include "quern/quern_formats.h"

namespace quern::cpu::avx512_vnni::packed {

/// What a coded Element gives beside dtype, group and line_k: Line and line(p), values of a line; value<j>(line), of its step j,
/// which is one or two of k; `factor`, a power of two that values lack; Faults, which see all lines of a block and make parts NaN if a code
/// stands for that; whole(p, j, value), a value that lacks no more than `wide_factor`, or NaN; put(), packing; and Single, the Element of the
/// same panels whose steps are of one k.
struct Coded {
  static constexpr bool coded = true;
  static constexpr int together = 1, bytes = 1, widest = 8;
  static constexpr float wide_factor = 1.0f;
  static constexpr Activations activations = Activations::f32;
  QUERN_VNNI_INLINE __m512 add_product(__m512 weights, __m512 x, __m512 sum) { return _mm512_fmadd_ps(weights, x, sum); }
};
template <typename Element>
constexpr int line_steps = Element::line_k / Element::together;

/// Codes that all stand for numbers.
struct NoFaults {
  QUERN_VNNI_INLINE void see(NoFaults&, const Byte*) {}
  QUERN_VNNI_INLINE __m512 applied(const NoFaults&, __m512 part) { return part; }
};

/// What a coded Element is widened to: a line a step.
template <typename Element>
struct WideCoded : Coded {
  static constexpr int together = Element::together, group = Element::group, line_k = together;
  static constexpr float factor = Element::wide_factor;
  using Line = __m512;
  using Faults = NoFaults;
  QUERN_VNNI_INLINE Line line(const Byte* p) { return _mm512_load_ps(p); }
  template <int>
  QUERN_VNNI_INLINE __m512 value(const Line& l) {
    return l;
  }
  QUERN_VNNI_INLINE __m512 add_product(__m512 weights, __m512 x, __m512 sum) { return Element::add_product(weights, x, sum); }
};

/// Calls use(j, weights) for the steps of a line of R panels, in order.
template <typename Element, int R, int J = 0, typename Use>
QUERN_VNNI_INLINE void each_step(const typename Element::Line (&lines)[R], const Use& use) {
  if constexpr (J < line_steps<Element>) {
    __m512 weights[R];
    QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) weights[r] = Element::template value<J>(lines[r]);
    use(J, weights);
    each_step<Element, R, J + 1>(lines, use);
  }
}

template <typename Element, int R, int C, int Ahead>
[[gnu::noinline]] static void coded_tile(const Tile& tile) noexcept {
  constexpr int bytes = coded_bytes<Element, panel_rows>;
  const Byte* w[R];
  QUERN_VNNI_UNROLL
  for (int r = 0; r < R; ++r) w[r] = tile.weights + r * tile.panel_stride;
  for (int i = 0; tile.first && i < R * C; ++i) _mm512_store_ps(tile.totals + 16 * i, _mm512_setzero_ps());
  // Token 4 g + i is at x[g] + step[i].
  const std::byte* x[3] = {tile.rows, tile.rows + 4 * tile.row_bytes, tile.rows + 8 * tile.row_bytes};
  std::int64_t step[4] = {0, tile.row_bytes, 2 * tile.row_bytes, 3 * tile.row_bytes};
  asm("" : "+r"(step[1]), "+r"(step[2]), "+r"(step[3]));
  for (std::int64_t blocks = tile.k / Element::group; blocks > 0; --blocks) {
    __m512 part[R][C];
    typename Element::Faults faults[R]{};
    QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) {
      if (Ahead > 0) prefetch_lines<1>(w[r] + Ahead);
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) part[r][c] = _mm512_castsi512_ps(zeros());
    }
#pragma GCC unroll 1
    for (int at = 64; at < bytes; at += 64) {
      typename Element::Line lines[R];
      QUERN_VNNI_UNROLL
      for (int r = 0; r < R; ++r) {
        if (Ahead > 0) prefetch_lines<1>(w[r] + at + Ahead);
        lines[r] = Element::line(w[r] + at);
        Element::Faults::see(faults[r], w[r] + at);
      }
      each_step<Element, R>(
          lines, [&](int j, const __m512(&weights)[R]) __attribute__((always_inline)) {
            QUERN_VNNI_UNROLL
            for (int c = 0; c < C; ++c) {
              const __m512 v = broadcast_float(x[c / 4] + step[c % 4] + 4 * j);
              QUERN_VNNI_UNROLL
              for (int r = 0; r < R; ++r) part[r][c] = Element::add_product(weights[r], v, part[r][c]);
              keep_factor(v);
            }
            QUERN_VNNI_UNROLL
            for (int r = 0; r < R; ++r) keep_factor(weights[r]);
          });
      QUERN_VNNI_UNROLL
      for (int g = 0; g < 3; ++g) x[g] += 4 * line_steps<Element>;
    }
    QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) {
      const __m512 scale = _mm512_load_ps(w[r]);
      w[r] += bytes;
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) {
        __m512 sum = Element::Faults::applied(faults[r], part[r][c]);
        if (Element::factor != 1.0f) sum = _mm512_mul_ps(sum, _mm512_set1_ps(Element::factor));
        float* total = tile.totals + 16 * (R * c + r);
        _mm512_store_ps(total, _mm512_fmadd_ps(sum, scale, _mm512_load_ps(total)));
      }
    }
    end_of_block();
  }
  if (!tile.last) return;
  for (int r = 0; r < R; ++r) {
    const __mmask16 mask = row_mask(tile.rows_left - panel_rows * r);
    for (int c = 0; c < C; ++c)
      _mm512_mask_storeu_ps(tile.y + c * tile.y_stride + panel_rows * r, mask, _mm512_load_ps(tile.totals + 16 * (R * c + r)));
  }
}

/// Blocks of `k` of a panel, widened.
template <typename Element>
static void widen_coded(const Byte* p, std::int64_t k, Byte* to) noexcept {
  constexpr int bytes = coded_bytes<Element, panel_rows>;
  for (std::int64_t i = 0; i < k; i += Element::group, p += bytes) {
    _mm512_store_si512(to, load(p));
    to += 64;
    for (int at = 64; at < bytes; at += 64, to += 64 * line_steps<Element>) {
      const typename Element::Line lines[1] = {Element::line(p + at)};
      each_step<Element, 1>(
          lines, [&](int j, const __m512(&weights)[1])
                     __attribute__((always_inline)) { _mm512_store_ps(to + 64 * j, Element::whole(p + at, j, weights[0])); });
    }
  }
}

/// Values times the scale, rounded once.
template <typename Element>
static void unpack_coded(const std::byte* panel, std::int64_t row, std::int64_t k, float* out) noexcept {
  const auto* p = reinterpret_cast<const Byte*>(panel);
  alignas(64) float wide[coded_bytes<WideCoded<Element>, panel_rows> / 4];
  for (std::int64_t i = 0; i < k; i += Element::group, p += coded_bytes<Element, panel_rows>) {
    widen_coded<Element>(p, Element::group, reinterpret_cast<Byte*>(wide));
    for (int at = 0; at < Element::group; ++at) out[i + at] = wide[row] * wide[16 * (at + 1) + row];
  }
}

}  // namespace quern::cpu::avx512_vnni::packed
