// f32, f16 and bf16 weights against f32 activations: a panel is k times 16 elements, one of each row. bf16 weights against bf16
// activations: pairs of k, two elements of each row. A step is one line of the panel, one or two of k, and 4 bytes of an activation row.
//
// Each output is one chain of fused multiply-adds in the order of k, whatever the tile. Tiles: 2 panels x 12 tokens (24 sums, 14 loads
// for 24 fma), tokens cut evenly; 4 panels for one or two tokens, where one panel's chain of 4-clock fmas would be slower than memory.
// A conversion of 16 f16 or bf16 takes two of the fma ports' slots: 24 of 28 slots are left, 27 of 32 multiply-adds a clock.
#pragma once

#include "driver.hpp"
#include "transpose.hpp"

namespace quern::cpu::avx512_vnni::packed {

template <typename Element, int R, int C>
[[gnu::noinline]] static void float_tile(const Tile& tile) noexcept {
  constexpr int line = panel_rows * Element::bytes * Element::together, unroll = 4;  // bytes of one step
  __m512 f[R][C];
  const Byte* w[R];
  QUERN_VNNI_UNROLL
  for (int r = 0; r < R; ++r) {
    w[r] = tile.weights + r * tile.panel_stride;
    QUERN_VNNI_UNROLL
    for (int c = 0; c < C; ++c) f[r][c] = _mm512_setzero_ps();
  }
  // Token 4 g + i is at x[g] + step[i]: three moving pointers and three offsets, which the general registers hold.
  const std::byte* x[3] = {tile.rows, tile.rows + 4 * tile.row_bytes, tile.rows + 8 * tile.row_bytes};
  std::int64_t step[4] = {0, tile.row_bytes, 2 * tile.row_bytes, 3 * tile.row_bytes};
  asm("" : "+r"(step[1]), "+r"(step[2]), "+r"(step[3]));
  const auto one = [&](int i) __attribute__((always_inline)) {
    __m512 weights[R];
    QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) weights[r] = Element::load(w[r] + i * line);
    QUERN_VNNI_UNROLL
    for (int c = 0; c < C; ++c) {
      const __m512 v = broadcast_float(x[c / 4] + step[c % 4] + 4 * i);
      QUERN_VNNI_UNROLL
      for (int r = 0; r < R; ++r) f[r][c] = Element::add_product(weights[r], v, f[r][c]);
      keep_factor(v);
    }
    QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) keep_factor(weights[r]);
  };
  std::int64_t steps = (tile.k + Element::together - 1) / Element::together;
  for (; steps >= unroll; steps -= unroll) {
    QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) prefetch_lines<line * unroll / 64>(w[r] + 2048);
    QUERN_VNNI_UNROLL
    for (int i = 0; i < unroll; ++i) one(i);
    QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) w[r] += unroll * line;
    QUERN_VNNI_UNROLL
    for (int g = 0; g < 3; ++g) x[g] += 4 * unroll;
  }
  for (; steps > 0; --steps) {
    one(0);
    QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) w[r] += line;
    QUERN_VNNI_UNROLL
    for (int g = 0; g < 3; ++g) x[g] += 4;
  }
  QUERN_VNNI_UNROLL
  for (int r = 0; r < R; ++r) {
    const __mmask16 mask = row_mask(tile.rows_left - panel_rows * r);
    QUERN_VNNI_UNROLL
    for (int c = 0; c < C; ++c) _mm512_mask_storeu_ps(tile.y + c * tile.y_stride + panel_rows * r, mask, f[r][c]);
  }
}

/// What an Element that multiplies f32 gives beside dtype, bytes, load (a line: 16 elements as f32), and one (an element as f32).
struct OneByOne {
  static constexpr int together = 1;  // elements of k in a step
  static constexpr Activations activations = Activations::f32;
  QUERN_VNNI_INLINE __m512 add_product(__m512 weights, __m512 x, __m512 sum) { return _mm512_fmadd_ps(weights, x, sum); }
};

template <typename Element>
struct Floats {
  static constexpr std::int64_t widest = 12;
  static constexpr int line = panel_rows * Element::bytes * Element::together;

  static std::int64_t panel_bytes(std::int64_t k) noexcept { return ((k + Element::together - 1) / Element::together * line + 63) / 64 * 64; }

  template <int R>
  static void run(const Tile& tile, std::int64_t tokens) noexcept {
    if constexpr (R == 4) {
      static constexpr void (*tiles[])(const Tile&) noexcept = {float_tile<Element, 4, 1>, float_tile<Element, 4, 2>};
      tiles[tokens - 1](tile);
    } else {
      static constexpr void (*tiles[])(const Tile&) noexcept = {
          float_tile<Element, R, 1>, float_tile<Element, R, 2>, float_tile<Element, R, 3>, float_tile<Element, R, 4>, float_tile<Element, R, 5>, float_tile<Element, R, 6>,
          float_tile<Element, R, 7>, float_tile<Element, R, 8>, float_tile<Element, R, 9>, float_tile<Element, R, 10>, float_tile<Element, R, 11>, float_tile<Element, R, 12>};
      tiles[tokens - 1](tile);
    }
  }

  static void multiply(const PackedPart& part) noexcept {
    const std::int64_t tiles = (part.tokens + widest - 1) / widest, bytes = panel_bytes(part.k);
    for (std::int64_t p = 0; p < part.panel_count;) {
      const std::int64_t left = part.panel_count - p, step = part.tokens <= 2 && left >= 4 ? 4 : left >= 2 ? 2 : 1;
      Tile tile{};
      tile.weights = reinterpret_cast<const Byte*>(part.panels) + p * bytes;
      tile.panel_stride = bytes;
      tile.rows = part.activations;
      tile.row_bytes = activation_row_bytes(Element::activations, part.k);
      tile.k = part.k;
      tile.y = part.y + p * panel_rows;
      tile.y_stride = part.y_stride;
      tile.rows_left = part.rows - p * panel_rows;
      for (std::int64_t i = 0; i < tiles; ++i) {
        const std::int64_t width = part.tokens / tiles + (i < part.tokens % tiles ? 1 : 0);
        if (step == 4) run<4>(tile, width);
        else if (step == 2) run<2>(tile, width);
        else run<1>(tile, width);
        tile.rows += width * tile.row_bytes;
        tile.y += width * tile.y_stride;
      }
      p += step;
    }
  }

  /// Where element i of a row lies in its panel.
  static std::int64_t place(std::int64_t i, std::int64_t row) noexcept {
    return i / Element::together * line + (row * Element::together + i % Element::together) * Element::bytes;
  }

  /// 32 bytes of each of 16 rows.
  QUERN_VNNI_INLINE void turn(const Byte* rows, std::int64_t stride, Byte* to) {
    __m512i words[8];
    transpose_words(rows, stride, words);
    // A word of two halves is two lines: the even k of 16 rows, then the odd one.
    const __m512i split = _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1,
                                           30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    QUERN_VNNI_UNROLL
    for (int j = 0; j < 8; ++j) _mm512_store_si512(to + 64 * j, Element::bytes * Element::together == 2 ? _mm512_permutexvar_epi16(split, words[j]) : words[j]);
  }

  static void pack(const std::byte* source, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* panel) noexcept {
    constexpr int step = 32 / Element::bytes;
    const auto* from = reinterpret_cast<const Byte*>(source);
    auto* to = reinterpret_cast<Byte*>(panel);
    std::int64_t i = 0;
    if (rows == panel_rows)
      for (; i + step <= k; i += step) turn(from + i * Element::bytes, stride, to + i * panel_rows * Element::bytes);
    __builtin_memset(to + i * panel_rows * Element::bytes, 0, static_cast<std::size_t>(panel_bytes(k) - i * panel_rows * Element::bytes));
    for (; i < k; ++i)
      for (std::int64_t row = 0; row < rows; ++row)
        __builtin_memcpy(to + place(i, row), from + row * stride + i * Element::bytes, Element::bytes);
  }
  static void unpack_row(const std::byte* panel, std::int64_t row, std::int64_t k, float* out) noexcept {
    for (std::int64_t i = 0; i < k; ++i) out[i] = Element::one(reinterpret_cast<const Byte*>(panel) + place(i, row));
  }

  static PackedLayout layout(const char* key) noexcept {
    return {Element::dtype, Isa::avx512, key, Element::activations, panel_rows, 1, panel_bytes, pack, unpack_row, multiply, nullptr};
  }
};

}  // namespace quern::cpu::avx512_vnni::packed
