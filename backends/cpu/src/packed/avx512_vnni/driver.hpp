// Cuts a multiplication into register tiles: what the block formats have in common.
//
//   1..16 tokens  a panel at a time against up to 8 tokens, straight from the packed bytes, which are prefetched: they come from memory
//   more          in chunks of 96 tokens, two panels at a time are widened to bytes and f32 scales in scratch (1-2 % of the time) and
//                 multiplied in tiles of 2 panels x 6 tokens: 12 integer and 12 float sums, which leaves 8 registers. Formats whose
//                 totals wait in memory do so 512 of k at a time: 20 KB of widened panels, which stay in the first-level cache
// Each output has its own sums in every tile, and the same arithmetic on the same numbers: the bits do not depend on the tile.
#pragma once

#include "../packed.hpp"
#include "sums.hpp"
#include "vectors.hpp"

namespace quern::cpu::avx512_vnni::packed {

constexpr std::int64_t chunk_tokens = 96, direct_tokens = 16, direct_tile = 8, wide_tile = 6;
constexpr std::int64_t all_sums = chunk_tokens * 2 * panel_rows;  // floats: the totals of two panels, of all tiles

/// One tile: R panels x C tokens.
struct Tile {
  const Byte* weights;         // of the first panel
  std::int64_t panel_stride;   // to the next one, in bytes
  const std::byte* rows;       // quantised activations of the first token
  std::int64_t row_bytes, k;
  std::int64_t scales_at, sums_at;  // where a row has its scales and sums
  const std::int32_t* side;    // what Format::prepare made of these tokens
  float* totals;               // R C 16 floats, for formats whose totals wait in memory
  bool first, last;            // part of k: totals start at zero; totals are stored to y
  float* y;                    // of the first token and panel
  std::int64_t y_stride, rows_left;
};

QUERN_VNNI_INLINE __mmask16 row_mask(std::int64_t rows_left) {
  return static_cast<__mmask16>(rows_left >= 16 ? 0xffff : rows_left <= 0 ? 0 : (1 << rows_left) - 1);
}

/// How tokens are cut: tiles of nearly the same width.
struct Widths {
  std::int64_t tiles, narrow, wider;  // the first `wider` tiles have narrow + 1 tokens
};
QUERN_VNNI_INLINE Widths tile_widths(std::int64_t tokens) {
  const std::int64_t widest = tokens <= direct_tokens ? direct_tile : wide_tile, tiles = (tokens + widest - 1) / widest;
  return {tiles, tokens / tiles, tokens % tiles};
}

/// `Format` gives: packed_bytes(k) and wide_bytes(k) of a panel, side_ints(k) a token, wide_k (of k widened at a time; 0: all), prepare(),
/// widen(), and run_direct(tile, tokens) and run_wide<R>(tile, tokens).
template <typename Format>
struct Driver {
  static std::int64_t wide_part(std::int64_t k) noexcept { return Format::wide_k == 0 ? k : lesser(Format::wide_k, k); }
  static std::int64_t scratch_floats(std::int64_t k) noexcept {
    return 2 * Format::wide_bytes(wide_part(k)) / 4 + chunk_tokens * Format::side_ints(k) + all_sums;
  }

  static void multiply(const PackedPart& part) noexcept {
    const std::int64_t row_bytes = activation_row_bytes(Format::activations, part.k);
    const ActivationRow first = activation_row(Format::activations, part.activations, part.k);
    auto* wide = reinterpret_cast<Byte*>(part.scratch);
    auto* side = reinterpret_cast<std::int32_t*>(wide + 2 * Format::wide_bytes(wide_part(part.k)));
    for (std::int64_t t = 0; t < part.tokens; t += chunk_tokens) {
      Tile tile{};
      tile.totals = reinterpret_cast<float*>(side + chunk_tokens * Format::side_ints(part.k));
      tile.rows = part.activations + t * row_bytes;
      tile.row_bytes = row_bytes;
      tile.k = part.k;
      tile.first = tile.last = true;
      tile.scales_at = reinterpret_cast<const std::byte*>(first.scales) - part.activations;
      tile.sums_at = reinterpret_cast<const std::byte*>(first.sums) - part.activations;
      tile.y = part.y + t * part.y_stride;
      tile.y_stride = part.y_stride;
      chunk(part, tile, lesser(chunk_tokens, part.tokens - t), wide, side);
    }
  }

 private:
  static void chunk(const PackedPart& part, Tile tile, std::int64_t tokens, Byte* wide, std::int32_t* side) noexcept {
    const Widths widths = tile_widths(tokens);
    const std::int64_t ints = Format::side_ints(part.k);
    for (std::int64_t i = 0, t = 0; i < widths.tiles; ++i) {
      const std::int64_t width = widths.narrow + (i < widths.wider ? 1 : 0);
      for (std::int64_t c = 0; ints != 0 && c < width; ++c)
        Format::prepare(reinterpret_cast<const std::int8_t*>(tile.rows + (t + c) * tile.row_bytes), part.k, side + t * ints + c, width);
      t += width;
    }
    const std::int64_t panel_bytes = Format::packed_bytes(part.k);
    const auto* panels = reinterpret_cast<const Byte*>(part.panels);
    const bool direct = tokens <= direct_tokens;
    const std::int64_t step = direct ? 1 : 2;
    for (std::int64_t p = 0; p < part.panel_count; p += step) {
      const bool two = step == 2 && p + 1 < part.panel_count;
      Tile now = tile;
      now.rows_left = part.rows - p * panel_rows;
      now.weights = panels + p * panel_bytes;
      now.panel_stride = panel_bytes;
      now.y += p * panel_rows;
      now.side = side;
      if (direct) {
        for (std::int64_t i = 0; i < widths.tiles; ++i) {
          const std::int64_t width = widths.narrow + (i < widths.wider ? 1 : 0);
          Format::run_direct(now, width);
          now.rows += width * now.row_bytes;
          now.side += width * ints;
          now.y += width * now.y_stride;
        }
      } else if (two) {
        widened<2>(now, widths, wide);
      } else {
        widened<1>(now, widths, wide);
      }
    }
  }

  /// R panels against all tiles, wide_k of k at a time.
  template <int R>
  static void widened(const Tile& tile, const Widths& widths, Byte* wide) noexcept {
    const std::int64_t part = wide_part(tile.k), wide_bytes = Format::wide_bytes(part), ints = Format::side_ints(tile.k);
    std::int64_t k = 0;
    do {
      Tile now = tile;
      now.k = lesser(part, tile.k - k);
      now.first = k == 0;
      now.last = k + now.k == tile.k;
      now.weights = wide;
      now.panel_stride = wide_bytes;
      for (int r = 0; r < R; ++r) Format::widen(tile.weights + r * tile.panel_stride + Format::packed_bytes(k), now.k, wide + r * wide_bytes);
      now.rows += k;
      now.scales_at += Format::scale_bytes(k) - k;
      for (std::int64_t i = 0; i < widths.tiles; ++i) {
        const std::int64_t width = widths.narrow + (i < widths.wider ? 1 : 0);
        Tile one = now;
        one.side += width * Format::side_ints(k);
        Format::template run_wide<R>(one, width);
        now.rows += width * now.row_bytes;
        now.side += width * ints;
        now.y += width * now.y_stride;
        now.totals += width * R * panel_rows;
      }
      k += part;
    } while (k < tile.k);
  }
};

}  // namespace quern::cpu::avx512_vnni::packed
