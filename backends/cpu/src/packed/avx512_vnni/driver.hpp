// Cuts a multiplication into register tiles: what the block formats have in common.
//
//   1..16 tokens  a panel at a time against up to 8 tokens, straight from the packed bytes, which come from memory: see far_ahead
//   more          blocks of up to 256 tokens against groups of up to 8 panels, 512 of k at a time: what the tokens hold of these k (128 KB)
//                 and the group's totals (128 KB) stay in the second-level cache. Two panels at a time are widened to bytes and f32 scales
//                 (20 KB, which stay in the first-level cache) and multiplied in tiles of 2 panels x 6 tokens: 12 integer and 12 float
//                 sums, which leaves 8 registers. Meanwhile the two panels that are next are asked for
// Each output has its own sums in every tile, and the same arithmetic on the same numbers: the bits do not depend on the tile.
#pragma once

#include "../packed.hpp"
#include "sums.hpp"
#include "vectors.hpp"

namespace quern::cpu::avx512_vnni::packed {

constexpr std::int64_t block_tokens = 256, group_panels = 8, wide_k = 512, direct_tokens = 16, direct_tile = 8, wide_tile = 6;
constexpr std::int64_t group_sums = block_tokens * group_panels * panel_rows;  // floats: the totals of a group

/// One tile: R panels x C tokens.
struct Tile {
  const Byte* weights;         // of the first panel
  std::int64_t panel_stride;   // to the next one, in bytes
  const std::byte* rows;       // quantised activations of the first token
  std::int64_t row_bytes, k;
  std::int64_t scales_at, sums_at, starts_at;  // where a row has its scales, sums and starts
  const std::int32_t* side;    // what Format::prepare made of these tokens, if it makes anything
  float* totals;               // R C 16 floats: where totals wait between two parts of k
  bool first, last;            // part of k: totals start at zero; they are stored to y
  bool small_sums;             // what Format::sums_are_small said of these tokens, if it is asked
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

/// Even blocks of at most block_tokens.
QUERN_VNNI_INLINE std::int64_t even_block(std::int64_t tokens) {
  const std::int64_t blocks = (tokens + block_tokens - 1) / block_tokens;
  return (tokens + blocks - 1) / blocks;
}

/// Bytes of R panels, `stride` apart, that are wanted soon: asked for a share at a time, to the second level.
struct Soon {
  const Byte* at;
  std::int64_t stride, bytes;  // bytes: of each panel

  template <int R>
  QUERN_VNNI_INLINE void prefetch_share(const Soon& soon, std::int64_t share, std::int64_t shares) {
    for (std::int64_t i = soon.bytes * share / shares / 64 * 64; i < soon.bytes * (share + 1) / shares; i += 64)
      for (int r = 0; r < R; ++r) _mm_prefetch(reinterpret_cast<const char*>(soon.at + r * soon.stride + i), _MM_HINT_T1);
  }
};

/// How a kernel's panel comes to it: from a cache, or as it is read; in the order of its lines; or asked for so many bytes ahead, to the
/// second level.
///
/// The more tokens, the fewer lines are in flight unless they are asked for: at 8 tokens a thread of Zen 4 reads 13 to 21 GB/s of every
/// format so, and 4 to 13 without; asking for the first level gives 8 to 12, and half as far 12 to 20.
/// Zen 4 fetches one stream by itself as fast as memory gives it, 31 to 34 GB/s a thread, where its lines are first touched one after the
/// other (26 to 32 where a kernel takes them as it needs them: high bits before low ones) and none is asked for (21 to 27): so at one
/// token, whose products take less time than memory. Emerald Rapids reads 5 to 11 GB/s unless it is asked, and then 11 to 15.
constexpr int from_cache = 0, in_order = -1, far_ahead = 8192;
QUERN_VNNI_INLINE bool fetches_streams() { return __builtin_cpu_is("amd"); }
/// Up to how many tokens that holds: two take as long as one where codes need one mask or none.
template <int Bits>
constexpr int light_tokens = Bits == 4 || Bits == 8 ? 2 : 1;

/// `Format` gives: packed_bytes(k) and wide_bytes(k) of a panel, and a token's side_ints(k), scale_bytes(k) and start_bytes(k);
/// prepare() where side_ints is not 0; widen(), run_direct(tile, tokens) and run_wide<R>(tile, tokens); it may give sums_are_small(tile, tokens).
template <typename Format>
struct Driver {
  static constexpr std::int64_t direct_sums = direct_tile * panel_rows;
  static constexpr std::int64_t wide_floats = 2 * Format::wide_bytes(wide_k) / 4;

  static std::int64_t scratch_floats(std::int64_t k) noexcept {
    const std::int64_t direct = direct_sums + direct_tokens * Format::side_ints(k), wide = wide_floats + group_sums + block_tokens * Format::side_ints(wide_k);
    return direct > wide ? direct : wide;
  }

  static void multiply(const PackedPart& part) noexcept {
    if (part.tokens <= direct_tokens) return direct(part, tile_of(part, 0));
    const std::int64_t even = even_block(part.tokens);
    for (std::int64_t t = 0; t < part.tokens; t += even)
      for (std::int64_t p = 0; p < part.panel_count; p += group_panels)
        group(part, tile_of(part, t), lesser(even, part.tokens - t), p, lesser(group_panels, part.panel_count - p));
  }

 private:
  /// From token t on.
  static Tile tile_of(const PackedPart& part, std::int64_t t) noexcept {
    const ActivationRow first = activation_row(Format::activations, part.activations, part.k);
    Tile tile{};
    tile.weights = reinterpret_cast<const Byte*>(part.panels);
    tile.panel_stride = Format::packed_bytes(part.k);
    tile.row_bytes = activation_row_bytes(Format::activations, part.k);
    tile.rows = part.activations + t * tile.row_bytes;
    tile.k = part.k;
    tile.first = tile.last = true;
    tile.scales_at = reinterpret_cast<const std::byte*>(first.scales) - part.activations;
    tile.sums_at = reinterpret_cast<const std::byte*>(first.sums) - part.activations;
    tile.starts_at = reinterpret_cast<const std::byte*>(first.starts) - part.activations;
    tile.y = part.y + t * part.y_stride;
    tile.y_stride = part.y_stride;
    tile.rows_left = part.rows;
    return tile;
  }

  /// What the formats make of `k` of these tokens, tile by tile.
  static void prepare(const Tile& tile, const Widths& widths, std::int64_t k, std::int32_t* side) noexcept {
    if constexpr (Format::side_ints(wide_k) != 0) {
      const std::byte* row = tile.rows;
      for (std::int64_t i = 0; i < widths.tiles; ++i) {
        const std::int64_t width = widths.narrow + (i < widths.wider ? 1 : 0);
        for (std::int64_t c = 0; c < width; ++c, row += tile.row_bytes) Format::prepare(reinterpret_cast<const std::int8_t*>(row), k, side + c, width);
        side += width * Format::side_ints(k);
      }
    }
  }

  /// A bit for each tile. Once for all panels of a group: asked for each pair of them, for lines that come from the second-level cache, this
  /// took 2 % of a prefill on an Emerald Rapids.
  static std::uint64_t tiles_with_small_sums(Tile tile, const Widths& widths) noexcept {
    static_assert(block_tokens / wide_tile < 64);
    std::uint64_t small = 0;
    if constexpr (requires { Format::sums_are_small(tile, 1); }) {
      for (std::int64_t i = 0; i < widths.tiles; ++i) {
        const std::int64_t width = widths.narrow + (i < widths.wider ? 1 : 0);
        small |= static_cast<std::uint64_t>(Format::sums_are_small(tile, width)) << i;
        tile.rows += width * tile.row_bytes;
      }
    }
    return small;
  }

  static void direct(const PackedPart& part, Tile tile) noexcept {
    const Widths widths = tile_widths(part.tokens);
    auto* side = reinterpret_cast<std::int32_t*>(part.scratch + direct_sums);
    tile.totals = part.scratch;
    const std::int64_t ints = Format::side_ints(part.k);
    prepare(tile, widths, part.k, side);
    for (std::int64_t p = 0; p < part.panel_count; ++p) {
      Tile now = tile;
      now.side = side;
      for (std::int64_t i = 0; i < widths.tiles; ++i) {
        const std::int64_t width = widths.narrow + (i < widths.wider ? 1 : 0);
        Format::run_direct(now, width);
        now.rows += width * now.row_bytes;
        now.side += width * ints;
        now.y += width * now.y_stride;
      }
      tile.weights += tile.panel_stride;
      tile.y += panel_rows;
      tile.rows_left -= panel_rows;
    }
  }

  /// Panels p .. p + panels against the tokens of `tile`, all of k.
  static void group(const PackedPart& part, Tile tile, std::int64_t tokens, std::int64_t p, std::int64_t panels) noexcept {
    auto* wide = reinterpret_cast<Byte*>(part.scratch);
    float* totals = part.scratch + wide_floats;
    auto* side = reinterpret_cast<std::int32_t*>(totals + group_sums);
    const Widths widths = tile_widths(tokens);
    tile.weights += p * tile.panel_stride;
    tile.y += p * panel_rows;
    tile.rows_left -= p * panel_rows;
    for (std::int64_t k = 0; k < part.k; k += wide_k) {
      tile.k = lesser(wide_k, part.k - k);
      tile.first = k == 0;
      tile.last = k + tile.k == part.k;
      prepare(tile, widths, tile.k, side);
      const std::uint64_t small = tiles_with_small_sums(tile, widths);
      for (std::int64_t r = 0; r < panels; r += 2) {
        Tile now = tile;
        now.weights += r * tile.panel_stride;
        now.totals = totals + r * panel_rows * tokens;
        now.side = side;
        now.y += r * panel_rows;
        now.rows_left -= r * panel_rows;
        // These k of the next two panels; after the last, the next k of the first two, or, behind all k, the panels behind these, which are
        // most often this thread's next.
        Soon soon{now.weights + 2 * tile.panel_stride, tile.panel_stride, Format::packed_bytes(tile.k)};
        if (r + 2 >= panels) soon.at = tile.last ? tile.weights - Format::packed_bytes(k) + panels * tile.panel_stride : tile.weights + soon.bytes;
        if (r + 2 <= panels) widened<2>(now, widths, small, wide, soon);
        else widened<1>(now, widths, small, wide, soon);
      }
      tile.weights += Format::packed_bytes(tile.k);
      tile.rows += tile.k;
      tile.scales_at += Format::scale_bytes(tile.k) - tile.k;
      tile.sums_at += tile.k / 32 * 4 - tile.k;
      tile.starts_at += Format::start_bytes(tile.k) - tile.k;
    }
  }

  /// R panels against all tiles.
  template <int R>
  static void widened(Tile tile, const Widths& widths, std::uint64_t small, Byte* wide, const Soon& soon) noexcept {
    const std::int64_t wide_bytes = Format::wide_bytes(tile.k), ints = Format::side_ints(tile.k);
    for (int r = 0; r < R; ++r) Format::widen(tile.weights + r * tile.panel_stride, tile.k, wide + r * wide_bytes);
    tile.weights = wide;
    tile.panel_stride = wide_bytes;
    for (std::int64_t i = 0; i < widths.tiles; ++i) {
      const std::int64_t width = widths.narrow + (i < widths.wider ? 1 : 0);
      Soon::prefetch_share<2>(soon, i, widths.tiles);
      tile.small_sums = (small >> i & 1u) != 0;
      Format::template run_wide<R>(tile, width);
      tile.rows += width * tile.row_bytes;
      tile.side += width * ints;
      tile.y += width * tile.y_stride;
      tile.totals += width * R * panel_rows;
    }
  }
};

}  // namespace quern::cpu::avx512_vnni::packed
