// Cuts a multiplication of many tokens into tiles: what the block formats have in common. Panels, activations and bits are those of
// avx512_vnni, whose kernels take 16 tokens and fewer.
//
// As there, blocks of up to 256 tokens go against groups of up to 8 panels, but 256 of k at a time: two panels are widened (17 KB of a K
// format), and each pair of token tiles is multiplied by both of them before the next pair, so that the tokens' codes of these k (64 KB) come from
// the second-level cache once for two panels. A tile has one row a token: of 16 and fewer, so many that all tiles are alike (33 tokens:
// four tiles of 10). Where they do not come out even the last ones overlap, and what is computed twice has the same bits.
//
// A pair of tiles against so many k as fill the sum tiles is a unit. Its sums go to memory, where vectors take them up; that takes about as
// long as the tiles need, and neither needs the other's ports: so each step of a unit multiplies tiles, and then finishes a slice of the
// unit before. Sums wait in two buffers that take turns.
//
// Tiles are live from configure to release in one call, so that no thread goes on with them: a thread switch would save 8 KB for each.
#pragma once

#include "tiles.hpp"

#include "../avx512_vnni/driver.hpp"
#include "../packed.hpp"

namespace quern::cpu::avx512_amx {

using namespace avx512_vnni::packed;

constexpr std::int64_t part_k = 256, panels_together = 2;

/// Two token tiles against one panel: what finishing their sums needs.
struct Unit {
  const Byte* weights;                                    // widened: of these k
  const std::byte* rows[2];                               // the codes of these k of each tile's first token
  std::int64_t row_bytes, scales_at, sums_at, starts_at;  // from there to the next token; to the scales, sums and starts of these k
  std::int64_t tokens;                                    // of a tile; 0: there is nothing to finish
  std::int64_t k;
  std::int32_t* sums;
  const float* totals;  // [2 tokens][16], what the k before gave
  __mmask16 started;    // none: these are the first k
  float* out[2];        // of each tile: the same totals or, behind the last k, y
  std::int64_t out_stride;
  __mmask16 out_rows;
};

/// How a call's tokens are cut.
struct Cut {
  std::int64_t block, pairs, tokens;  // tokens of a block; pairs of tiles in it, and a tile's tokens: an even number of at most 16

  explicit Cut(std::int64_t all) noexcept
      : block(even_block(all)), pairs((block + 31) / 32), tokens(((block + 2 * pairs - 1) / (2 * pairs) + 1) / 2 * 2) {}
  /// The first token of a tile in a block of `count`, which is at least a tile's.
  std::int64_t first(std::int64_t tile, std::int64_t count) const noexcept { return lesser(tile * tokens, count - tokens); }
};

/// `Blocks` gives: activations; packed_bytes(k), wide_bytes(k), scale_bytes(k) and start_bytes(k); unit_k and steps; sum_ints of a unit;
/// shapes(tokens); widen(packed, k, wide); begin(), multiply(unit, step) for each step, end(unit); finish(unit, slice), as many slices as
/// steps; exact(part, token): whether sums of this token's products are those of avx512_vnni; and vnni(), its layout.
template <typename Blocks>
struct Driver {
  static constexpr std::int64_t wide_floats = panels_together * Blocks::wide_bytes(part_k) / 4;

  static std::int64_t scratch_floats(std::int64_t k) noexcept {
    const std::int64_t here = wide_floats + group_sums + 2 * Blocks::sum_ints, there = Blocks::vnni().scratch_floats(k);
    return here > there ? here : there;
  }

  static void multiply(const PackedPart& part) noexcept {
    std::int64_t from = 0;  // what is not yet multiplied
    for (std::int64_t t = 0, end; t < part.tokens; t = end + 1) {
      for (end = t; end < part.tokens && Blocks::exact(part, end); ++end) {}
      if (end - t <= direct_tokens) continue;
      if (t > from) Blocks::vnni().multiply(some_tokens(part, from, t));
      by_tiles(some_tokens(part, t, end));
      from = end;
    }
    if (from < part.tokens) Blocks::vnni().multiply(some_tokens(part, from, part.tokens));
  }

 private:
  static PackedPart some_tokens(PackedPart part, std::int64_t from, std::int64_t end) noexcept {
    part.activations += from * activation_row_bytes(Blocks::activations, part.k);
    part.y += from * part.y_stride;
    part.tokens = end - from;
    return part;
  }

  static void by_tiles(const PackedPart& part) noexcept {
    const Cut cut(part.tokens);
    configure_tiles(Blocks::shapes(cut.tokens));
    for (std::int64_t t = 0; t < part.tokens; t += cut.block) {
      const PackedPart block = some_tokens(part, t, t + lesser(cut.block, part.tokens - t));
      for (std::int64_t p = 0; p < part.panel_count; p += group_panels) group(block, cut, p, lesser(group_panels, part.panel_count - p));
    }
    release_tiles();
  }

  /// Panels p .. p + panels against a block of tokens, all of k.
  static void group(const PackedPart& part, const Cut& cut, std::int64_t p, std::int64_t panels) noexcept {
    auto* wide = reinterpret_cast<Byte*>(part.scratch);
    float* totals = part.scratch + wide_floats;
    const std::int64_t stride = Blocks::packed_bytes(part.k);
    const Byte* packed = reinterpret_cast<const Byte*>(part.panels) + p * stride;
    for (std::int64_t k = 0; k < part.k; k += part_k) {
      const std::int64_t count = lesser(part_k, part.k - k), bytes = Blocks::packed_bytes(count);
      for (std::int64_t r = 0; r < panels; r += panels_together) {
        const Byte* here = packed + r * stride + Blocks::packed_bytes(k);
        // As in avx512_vnni: these k of the next two panels; after the last, the next k of the first two, or the panels behind these.
        Soon soon{here + 2 * stride, stride, bytes};
        if (r + 2 >= panels) soon.at = k + count == part.k ? packed + panels * stride : packed + Blocks::packed_bytes(k) + bytes;
        together(part, cut, k, count, here, p + r, lesser(panels_together, panels - r), wide,
                 totals + 2 * r * cut.pairs * cut.tokens * panel_rows, soon);
      }
    }
  }

  /// One or two panels, from number `first` on, against all pairs of tiles: `count` of k from k on.
  static void together(const PackedPart& part, const Cut& cut, std::int64_t k, std::int64_t count, const Byte* packed, std::int64_t first,
                       std::int64_t panels, Byte* wide, float* totals, const Soon& soon) noexcept {
    const std::int64_t wide_bytes = Blocks::wide_bytes(count), pair_totals = 2 * cut.tokens * panel_rows,
                       share = Soon::share_of(soon, cut.pairs);
    for (std::int64_t i = 0; i < panels; ++i) Blocks::widen(packed + i * soon.stride, count, wide + i * wide_bytes);
    const ActivationRow row = activation_row(Blocks::activations, part.activations, part.k);
    const std::byte* codes = part.activations + k;
    Unit units[2] = {};  // before the first there is one without tokens
    int now = 0;
    for (Unit& u : units) {
      u.row_bytes = activation_row_bytes(Blocks::activations, part.k);
      u.sums = reinterpret_cast<std::int32_t*>(part.scratch + wide_floats + group_sums) + (&u - units) * Blocks::sum_ints;
    }
    for (std::int64_t pair = 0; pair < cut.pairs; ++pair) {
      const std::int64_t tokens[2] = {cut.first(2 * pair, part.tokens), cut.first(2 * pair + 1, part.tokens)};
      Soon::prefetch<2>(soon, pair * share, lesser((pair + 1) * share, soon.bytes));
      for (std::int64_t i = 0; i < panels; ++i)
        for (std::int64_t at = 0; at < count; at += Blocks::unit_k, now = 1 - now) {
          Unit& u = units[now];
          u.weights = wide + i * wide_bytes + Blocks::wide_bytes(at);
          u.tokens = cut.tokens;
          u.k = lesser(Blocks::unit_k, count - at);
          for (int tile = 0; tile < 2; ++tile) u.rows[tile] = codes + tokens[tile] * u.row_bytes + at;
          u.scales_at = reinterpret_cast<const std::byte*>(row.scales) + Blocks::scale_bytes(k + at) - (codes + at);
          u.sums_at = reinterpret_cast<const std::byte*>(row.sums) + (k + at) / 32 * 4 - (codes + at);
          u.starts_at = reinterpret_cast<const std::byte*>(row.starts) + Blocks::start_bytes(k + at) - (codes + at);
          float* const own = totals + (i * cut.pairs + pair) * pair_totals;
          u.totals = own;
          u.started = k + at == 0 ? 0 : 0xffff;
          const bool last = k + at + u.k == part.k;
          u.out_stride = last ? part.y_stride : panel_rows;
          u.out_rows = last ? row_mask(part.rows - (first + i) * panel_rows) : 0xffff;
          for (int tile = 0; tile < 2; ++tile)
            u.out[tile] = last ? part.y + tokens[tile] * part.y_stride + (first + i) * panel_rows : own + tile * cut.tokens * panel_rows;
          unit(u, units[1 - now]);
        }
    }
    for (int slice = 0; slice < Blocks::steps; ++slice) Blocks::finish(units[1 - now], slice);
  }

  [[gnu::noinline]] static void unit(const Unit& now, const Unit& before) noexcept {
    Blocks::begin();
    for (int step = 0; step < Blocks::steps; ++step) {
      Blocks::multiply(now, step);
      Blocks::finish(before, step);
    }
    Blocks::end(now);
  }
};

/// The layout of avx512_vnni with this multiply.
template <typename Blocks>
PackedLayout tile_layout() noexcept {
  PackedLayout layout = Blocks::vnni();
  layout.isa = Isa::amx;
  layout.multiply = Driver<Blocks>::multiply;
  layout.scratch_floats = Driver<Blocks>::scratch_floats;
  return layout;
}

}  // namespace quern::cpu::avx512_amx
