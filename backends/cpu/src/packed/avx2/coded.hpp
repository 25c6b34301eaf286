// Weights whose codes stand for floats (../coded_panels.hpp) against f32 activations: panels of 8 rows.
//
// Of each block an output has four sums, of k 0, 4, 8 .., of k 1, 5, 9 .. and so on (wide_floats.hpp); each times the scale is added to its
// total. So the inner loop has no scales, and one token has four chains of additions to work on. More tokens read widened blocks: what a
// line takes to be decoded leaves no registers for their sums.
#pragma once

#include "../coded_panels.hpp"
#include "codes.hpp"
#include "wide_floats.hpp"

namespace quern::cpu::avx2::packed {
namespace {

/// What an Element gives beside dtype, key, group and line_k: Tables, which registers hold; each(tables, line, use), which calls
/// use(j, values) for the k of a line in order; `factor`, a power of two that values lack; each_whole, the same with values as they are, and NaN
/// where a code stands for that; Faults, which see all lines of a block and make a sum NaN if there is such a code; and put(), packing.
template <class Element>
struct CodedEngine : WideFloats<4, Element::group, true> {
  using Wide = WideFloats<4, Element::group, true>;
  static constexpr Activations activations = Activations::f32;
  static constexpr bool mins_apart = false, copies = false;
  static constexpr std::int64_t most_direct = 2;
  static constexpr int sums = 4, bytes = coded_bytes<Element, 8>;

  static std::int64_t panel_bytes(std::int64_t k) noexcept { return round_up(k / Element::group * bytes, 64); }

  /// Each token for itself: a second one finds the panel in a cache, and takes less than what it would take to widen blocks for two.
  template <int C>
  static void direct(const Byte* panel, std::int64_t k, const Tokens& tokens, const DirectScratch& scratch) {
    static_assert(C <= most_direct);
    for (int c = 0; c < C; ++c) one_token(panel, k, tokens.code(c, 0), scratch.main + 8 * c);
  }
  [[gnu::noinline]] static void one_token(const Byte* panel, std::int64_t k, const Byte* x, float* to) {
    const typename Element::Tables tables;
    __m256 main = _mm256_setzero_ps();
    for (std::int64_t i = 0; i < k; i += Element::group, panel += bytes) {
      __m256 sum[sums];
      for (int n = 0; n < sums; ++n) sum[n] = _mm256_setzero_ps();
      typename Element::Faults faults;
#pragma GCC unroll 1
      for (int at = 32; at < bytes; at += 64) {
        prefetch_far(panel + at);
#pragma GCC unroll 2
        for (int line = 0; line < 2; ++line) {
          faults.see(panel + at + 32 * line);
          Element::each(
              tables, panel + at + 32 * line, [&](int j, __m256 weights) __attribute__((always_inline)) {
                sum[j % sums] = _mm256_fmadd_ps(weights, broadcast_float(x + 4 * j), sum[j % sums]);
              });
          x += 4 * Element::line_k;
        }
      }
      const __m256 scale = _mm256_load_ps(reinterpret_cast<const float*>(panel));
      sum[0] = faults.applied(sum[0]);
      for (int n = 0; n < sums; ++n) {
        if (Element::factor != 1.0f) sum[n] = _mm256_mul_ps(sum[n], _mm256_set1_ps(Element::factor));
        main = _mm256_fmadd_ps(sum[n], scale, main);
      }
    }
    _mm256_store_ps(to, main);
  }

  template <int R>
  static void expand(const Byte* panels, std::int64_t k, std::int64_t from, std::int64_t length, Byte* to) {
    const typename Element::Tables tables;
    auto* span = reinterpret_cast<float*>(to);
    for (std::int64_t i = from; i < from + length; i += Element::group, span += Wide::template span_floats<R>)
      for (int r = 0; r < R; ++r) {
        const Byte* block = panels + r * panel_bytes(k) + i / Element::group * bytes;
        store(span + 8 * r, load(block));
        for (int at = 0; at < Element::group; at += Element::line_k)
          Element::each_whole(
              tables, block + 32 * (1 + at / Element::line_k), [&](int j, __m256 weights) __attribute__((always_inline)) {
                _mm256_store_ps(Wide::template line<R>(span, at + j) + 8 * r, weights);
              });
      }
  }

  /// Values times the scale, rounded once.
  static void unpack_row(const std::byte* panel, std::int64_t row, std::int64_t k, float* out) noexcept {
    alignas(32) float wide[Wide::template span_floats<1>];
    for (std::int64_t i = 0; i < k; i += Element::group) {
      expand<1>(reinterpret_cast<const Byte*>(panel), k, i, Element::group, reinterpret_cast<Byte*>(wide));
      for (int at = 0; at < Element::group; ++at) out[i + at] = wide[row] * Wide::template line<1>(wide, at)[row];
    }
  }

  static void pack(const std::byte* source, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* panel) noexcept {
    pack_coded_panel<Element, 8>(source, stride, rows, k, panel);
    const std::int64_t used = k / Element::group * bytes;
    __builtin_memset(panel + used, 0, static_cast<std::size_t>(panel_bytes(k) - used));
  }

  static PackedLayout layout() noexcept {
    return {Element::dtype,
            Isa::avx2,
            Element::key,
            activations,
            8,
            Element::group,
            panel_bytes,
            pack,
            unpack_row,
            multiply<CodedEngine>,
            scratch_floats<CodedEngine>};
  }
};

}  // namespace
}  // namespace quern::cpu::avx2::packed
