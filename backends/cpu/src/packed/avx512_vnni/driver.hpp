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
  const Byte* weights;        // of the first panel
  std::int64_t panel_stride;  // to the next one, in bytes
  const std::byte* rows;      // quantised activations of the first token
  std::int64_t row_bytes, k;
  std::int64_t scales_at, sums_at, starts_at;  // where a row has its scales, sums and starts
  const std::int32_t* side;                    // what Format::prepare made of these tokens, if it makes anything
  float* totals;                               // R C 16 floats: where totals wait between two parts of k
  bool first, last;                            // part of k: totals start at zero; they are stored to y
  bool small_sums;                             // these tokens' rows say so, if Format::small_at tells where
  float* y;                                    // of the first token and panel
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

  /// Bytes of each panel to ask for in each of so many turns: whole lines.
  QUERN_VNNI_INLINE std::int64_t share_of(const Soon& soon, std::int64_t turns) { return (soon.bytes / 64 + turns - 1) / turns * 64; }
  template <int R>
  QUERN_VNNI_INLINE void prefetch(const Soon& soon, std::int64_t from, std::int64_t end) {
    for (std::int64_t i = from; i < end; i += 64)
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
/// prepare() where side_ints is not 0; widen(), run_direct(tile, tokens) and run_wide<R>(tile, tokens); it may give small_at(k).
template <typename Format>
struct Driver {
  static constexpr std::int64_t direct_sums = direct_tile * panel_rows;
  static constexpr std::int64_t wide_floats = 2 * Format::wide_bytes(wide_k) / 4;

  static std::int64_t scratch_floats(std::int64_t k) noexcept {
    const std::int64_t direct = direct_sums + direct_tokens * Format::side_ints(k),
                       wide = wide_floats + group_sums + block_tokens * Format::side_ints(wide_k);
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
        for (std::int64_t c = 0; c < width; ++c, row += tile.row_bytes)
          Format::prepare(reinterpret_cast<const std::int8_t*>(row), k, side + c, width);
        side += width * Format::side_ints(k);
      }
    }
  }

  /// For each tile, which parts of k have small sums for all of its tokens: bits of the 32 parts from `word` on. Asked once for a group of
  /// panels and all k: asked by each tile, for lines that come from the second-level cache, this took 2 to 6 % of a prefill on an Emerald Rapids.
  static void find_small_sums(const Tile& tile, const Widths& widths, std::int64_t k, std::int64_t word, std::uint32_t* small) noexcept {
    if constexpr (requires { Format::small_at(k); }) {
      static_assert(wide_k == Starts::small_part);
      const std::byte* row = tile.rows + tile.starts_at + 4 * (Format::small_at(k) + word * Starts::small_words);
      for (std::int64_t i = 0; i < widths.tiles; ++i) {
        small[i] = ~0u;
        for (std::int64_t c = 0; c < widths.narrow + (i < widths.wider ? 1 : 0); ++c, row += tile.row_bytes) {
          std::uint32_t bits;
          __builtin_memcpy(&bits, row, 4);
          small[i] &= bits;
        }
      }
    }
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
    const Tile all = tile;
    std::uint32_t small[(block_tokens + wide_tile - 1) / wide_tile];
    for (std::int64_t k = 0; k < part.k; k += wide_k) {
      if (k % (32 * wide_k) == 0) find_small_sums(all, widths, part.k, k / (32 * wide_k), small);
      tile.k = lesser(wide_k, part.k - k);
      tile.first = k == 0;
      tile.last = k + tile.k == part.k;
      prepare(tile, widths, tile.k, side);
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
        if (r + 2 >= panels)
          soon.at = tile.last ? tile.weights - Format::packed_bytes(k) + panels * tile.panel_stride : tile.weights + soon.bytes;
        if (r + 2 <= panels) widened<2>(now, widths, small, k / wide_k % 32, wide, soon);
        else widened<1>(now, widths, small, k / wide_k % 32, wide, soon);
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
  static void widened(Tile tile, const Widths& widths, const std::uint32_t* small, std::int64_t bit, Byte* wide,
                      const Soon& soon) noexcept {
    const std::int64_t wide_bytes = Format::wide_bytes(tile.k), ints = Format::side_ints(tile.k);
    for (int r = 0; r < R; ++r) Format::widen(tile.weights + r * tile.panel_stride, tile.k, wide + r * wide_bytes);
    tile.weights = wide;
    tile.panel_stride = wide_bytes;
    const std::int64_t share = Soon::share_of(soon, widths.tiles);
    for (std::int64_t i = 0; i < widths.tiles; ++i) {
      const std::int64_t width = widths.narrow + (i < widths.wider ? 1 : 0);
      Soon::prefetch<2>(soon, i * share, lesser((i + 1) * share, soon.bytes));
      if constexpr (requires { Format::small_at(tile.k); }) tile.small_sums = (small[i] >> bit & 1u) != 0;
      Format::template run_wide<R>(tile, width);
      tile.rows += width * tile.row_bytes;
      tile.side += width * ints;
      tile.y += width * tile.y_stride;
      tile.totals += width * R * panel_rows;
    }
  }
};

}  // namespace quern::cpu::avx512_vnni::packed
