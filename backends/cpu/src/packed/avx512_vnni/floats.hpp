// f32, f16 and bf16 weights against f32 activations: a panel is k times 16 elements, one of each row. bf16 weights against bf16
// activations: pairs of k, two elements of each row. A step is one line of the panel, one or two of k, and 4 bytes of an activation row.
//
// Each output is one chain of fused multiply-adds in the order of k, whatever the tile. Tiles: 2 panels x 12 tokens (24 sums, 14 loads
// for 24 fma), tokens cut evenly; 4 panels for one or two tokens, where one panel's chain of 4-clock fmas would be slower than memory.
// A conversion of 16 f16 or bf16 takes two of the fma ports' slots: 24 of 28 slots are left, 27 of 32 multiply-adds a clock. So from 17
// tokens on work is cut as in driver.hpp, 256 of k at a time (2048 where nothing is widened), and two panels are widened once for up to
// 256 tokens: 15.6 multiply-adds a clock of Zen 4's 16 instead of 14.7.
#pragma once

#include "coded.hpp"
#include "driver.hpp"
#include "transpose.hpp"

namespace quern::cpu::avx512_vnni::packed {

template <typename Element, int R, int C, int Ahead>
[[gnu::noinline]] static void float_tile(const Tile& tile) noexcept {
  constexpr int line = panel_rows * Element::bytes * Element::together, unroll = 4;  // bytes of one step
  __m512 f[R][C];
  const Byte* w[R];
  QUERN_VNNI_UNROLL
  for (int r = 0; r < R; ++r) {
    w[r] = tile.weights + r * tile.panel_stride;
    QUERN_VNNI_UNROLL
    for (int c = 0; c < C; ++c) f[r][c] = tile.first ? _mm512_setzero_ps() : _mm512_load_ps(tile.totals + 16 * (R * c + r));
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
    for (int r = 0; Ahead > 0 && r < R; ++r) prefetch_lines<line * unroll / 64>(w[r] + Ahead);
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
  if (!tile.last) {
    QUERN_VNNI_UNROLL
    for (int c = 0; c < C; ++c) QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) _mm512_store_ps(tile.totals + 16 * (R * c + r), f[r][c]);
    return;
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
  static constexpr bool coded = false;
  static constexpr int together = 1, widest = 12;  // elements of k in a step; a tile's tokens
  static constexpr Activations activations = Activations::f32;
  QUERN_VNNI_INLINE __m512 add_product(__m512 weights, __m512 x, __m512 sum) { return _mm512_fmadd_ps(weights, x, sum); }
};

/// A line of f32: what elements that are to be converted are widened to.
struct WideLine : OneByOne {
  static constexpr int bytes = 4;
  QUERN_VNNI_INLINE __m512 load(const Byte* p) { return _mm512_load_ps(p); }
};

template <typename Element>
struct Floats {
  static constexpr int line = panel_rows * Element::bytes * Element::together;
  static constexpr bool widens = Element::coded || (Element::bytes == 2 && Element::together == 1);
  static constexpr int panels_ahead = far_ahead / 2;  // of each panel that is read beside others
  static constexpr std::int64_t wide_k = widens ? 256 * Element::together : 2048,
                                wide_floats = widens ? 2 * (256 + 4) * panel_rows : 0;  // and scales of blocks of 64, or of pairs of 128

  static std::int64_t panel_bytes(std::int64_t k) noexcept {
    if constexpr (Element::coded) return k / Element::group * coded_bytes<Element, panel_rows>;
    return ((k + Element::together - 1) / Element::together * line + 63) / 64 * 64;
  }

  template <typename From, int R, int Ahead>
  static void run_coded(const Tile& tile, std::int64_t tokens) noexcept {
    if constexpr (R == 4) {
      static constexpr void (*tiles[])(const Tile&) noexcept = {coded_tile<From, 4, 1, Ahead>, coded_tile<From, 4, 2, Ahead>};
      tiles[tokens - 1](tile);
    } else {
      constexpr int seventh = From::widest > 6 ? 7 : 6, eighth = From::widest > 6 ? 8 : 6;
      static_assert(From::widest == 6 || From::widest == 8);
      static constexpr void (*tiles[])(const Tile&) noexcept = {coded_tile<From, R, 1, Ahead>,       coded_tile<From, R, 2, Ahead>,
                                                                coded_tile<From, R, 3, Ahead>,       coded_tile<From, R, 4, Ahead>,
                                                                coded_tile<From, R, 5, Ahead>,       coded_tile<From, R, 6, Ahead>,
                                                                coded_tile<From, R, seventh, Ahead>, coded_tile<From, R, eighth, Ahead>};
      tiles[tokens - 1](tile);
    }
  }

  template <typename From, int R, int Ahead>
  static void run(const Tile& tile, std::int64_t tokens) noexcept {
    if constexpr (From::coded) {
      run_coded<From, R, Ahead>(tile, tokens);
    } else if constexpr (R == 4) {
      static constexpr void (*tiles[])(const Tile&) noexcept = {float_tile<From, 4, 1, Ahead>, float_tile<From, 4, 2, Ahead>};
      tiles[tokens - 1](tile);
    } else {
      static constexpr void (*tiles[])(const Tile&) noexcept = {
          float_tile<From, R, 1, Ahead>, float_tile<From, R, 2, Ahead>,  float_tile<From, R, 3, Ahead>,  float_tile<From, R, 4, Ahead>,
          float_tile<From, R, 5, Ahead>, float_tile<From, R, 6, Ahead>,  float_tile<From, R, 7, Ahead>,  float_tile<From, R, 8, Ahead>,
          float_tile<From, R, 9, Ahead>, float_tile<From, R, 10, Ahead>, float_tile<From, R, 11, Ahead>, float_tile<From, R, 12, Ahead>};
      tiles[tokens - 1](tile);
    }
  }

  /// From token t and panel p on.
  static Tile tile_of(const PackedPart& part, std::int64_t t, std::int64_t p) noexcept {
    Tile tile{};
    tile.panel_stride = panel_bytes(part.k);
    tile.weights = reinterpret_cast<const Byte*>(part.panels) + p * tile.panel_stride;
    tile.row_bytes = activation_row_bytes(Element::activations, part.k);
    tile.rows = part.activations + t * tile.row_bytes;
    tile.k = part.k;
    tile.first = tile.last = true;
    tile.y = part.y + t * part.y_stride + p * panel_rows;
    tile.y_stride = part.y_stride;
    tile.rows_left = part.rows - p * panel_rows;
    tile.totals = part.scratch;
    return tile;
  }

  /// R panels against `tokens`, tile by tile.
  template <typename From, int R, int Ahead>
  static void all_tiles(Tile tile, std::int64_t tokens, const Soon& soon) noexcept {
    const std::int64_t tiles = (tokens + From::widest - 1) / From::widest, share = Soon::share_of(soon, tiles);
    for (std::int64_t i = 0; i < tiles; ++i) {
      const std::int64_t width = tokens / tiles + (i < tokens % tiles ? 1 : 0);
      Soon::prefetch<2>(soon, i * share, lesser((i + 1) * share, soon.bytes));
      run<From, R, Ahead>(tile, width);
      tile.rows += width * tile.row_bytes;
      tile.y += width * tile.y_stride;
      tile.totals += width * R * panel_rows;
    }
  }

  /// R panels as they are, or widened.
  template <int R>
  static void widened(Tile tile, std::int64_t tokens, float* wide, const Soon& soon) noexcept {
    if constexpr (!widens) {
      all_tiles<Element, R, 0>(tile, tokens, soon);
    } else if constexpr (Element::coded) {
      constexpr std::int64_t bytes = wide_k / Element::group * coded_bytes<WideCoded<Element>, panel_rows>;
      auto* to = reinterpret_cast<Byte*>(wide);
      for (int r = 0; r < R; ++r) widen_coded<Element>(tile.weights + r * tile.panel_stride, tile.k, to + r * bytes);
      tile.weights = to;
      tile.panel_stride = bytes;
      all_tiles<WideCoded<Element>, R, 0>(tile, tokens, soon);
    } else {
      for (int r = 0; r < R; ++r)
        for (std::int64_t i = 0; i < tile.k; ++i)
          _mm512_store_ps(wide + (r * wide_k + i) * panel_rows, Element::load(tile.weights + r * tile.panel_stride + i * line));
      tile.weights = reinterpret_cast<const Byte*>(wide);
      tile.panel_stride = wide_k * panel_rows * 4;
      all_tiles<WideLine, R, 0>(tile, tokens, soon);
    }
  }

  /// Panels p .. p + panels against tokens t .. t + tokens, as in Driver.
  static void group(const PackedPart& part, std::int64_t t, std::int64_t tokens, std::int64_t p, std::int64_t panels) noexcept {
    const Tile all = tile_of(part, t, p);
    for (std::int64_t k = 0; k < part.k; k += wide_k) {
      Tile tile = all;
      tile.k = lesser(wide_k, part.k - k);
      tile.first = k == 0;
      tile.last = k + tile.k == part.k;
      tile.rows += k / Element::together * 4;
      tile.weights += panel_bytes(k);
      for (std::int64_t r = 0; r < panels; r += 2) {
        Tile now = tile;
        now.weights += r * tile.panel_stride;
        now.totals = part.scratch + wide_floats + r * panel_rows * tokens;
        now.y += r * panel_rows;
        now.rows_left -= r * panel_rows;
        Soon soon{now.weights + 2 * tile.panel_stride, tile.panel_stride, panel_bytes(tile.k)};
        if (r + 2 >= panels) soon.at = tile.last ? all.weights + panels * tile.panel_stride : tile.weights + panel_bytes(tile.k);
        if (r + 2 <= panels) widened<2>(now, tokens, part.scratch, soon);
        else widened<1>(now, tokens, part.scratch, soon);
      }
    }
  }

  template <int Ahead>
  static void few(const Tile& tile, std::int64_t tokens, std::int64_t panels) noexcept {
    if (panels == 4) run<Element, 4, Ahead>(tile, tokens);
    else if (panels == 2) all_tiles<Element, 2, Ahead>(tile, tokens, Soon{});
    else all_tiles<Element, 1, Ahead>(tile, tokens, Soon{});
  }

  static void multiply(const PackedPart& part) noexcept {
    if (part.tokens > direct_tokens) {
      const std::int64_t even = even_block(part.tokens);
      for (std::int64_t t = 0; t < part.tokens; t += even)
        for (std::int64_t p = 0; p < part.panel_count; p += group_panels)
          group(part, t, lesser(even, part.tokens - t), p, lesser(group_panels, part.panel_count - p));
      return;
    }
    for (std::int64_t p = 0; p < part.panel_count;) {
      const std::int64_t left = part.panel_count - p, step = part.tokens <= 2 && left >= 4 ? 4 : left >= 2 ? 2 : 1;
      const Tile tile = tile_of(part, 0, p);
      if constexpr (Element::coded) {
        few<panels_ahead>(tile, part.tokens, step);
      } else {
        if (part.tokens <= 2 && fetches_streams()) few<from_cache>(tile, part.tokens, step);
        else few<panels_ahead>(tile, part.tokens, step);
      }
      p += step;
    }
  }

  static std::int64_t scratch_floats(std::int64_t) noexcept { return wide_floats + group_sums; }

  /// Where element i of a row lies in its panel.
  static std::int64_t place(std::int64_t i, std::int64_t row) noexcept {
    return i / Element::together * line + (row * Element::together + i % Element::together) * Element::bytes;
  }

  /// 32 bytes of each of 16 rows.
  QUERN_VNNI_INLINE void turn(const Byte* rows, std::int64_t stride, Byte* to) {
    __m512i words[8];
    transpose_words(rows, stride, words);
    // A word of two halves is two lines: the even k of 16 rows, then the odd one.
    const __m512i split = _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26, 24, 22, 20, 18, 16, 14,
                                           12, 10, 8, 6, 4, 2, 0);
    QUERN_VNNI_UNROLL
    for (int j = 0; j < 8; ++j)
      _mm512_store_si512(to + 64 * j, Element::bytes * Element::together == 2 ? _mm512_permutexvar_epi16(split, words[j]) : words[j]);
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
    if constexpr (Element::coded)
      return {Element::dtype,
              Isa::avx512,
              key,
              Element::activations,
              panel_rows,
              Element::group,
              panel_bytes,
              pack_coded_panel<Element, panel_rows>,
              unpack_coded<typename Element::Single>,
              multiply,
              scratch_floats};
    else
      return {Element::dtype, Isa::avx512, key,      Element::activations, panel_rows, 1, panel_bytes,
              pack,           unpack_row,  multiply, scratch_floats};
  }
};

}  // namespace quern::cpu::avx512_vnni::packed
