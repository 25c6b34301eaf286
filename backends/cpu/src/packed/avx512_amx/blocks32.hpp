// Formats with a scale for 32, 64 or 128 k (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, and those with a word as their head) by tiles: panels of
// avx512_vnni/blocks32.hpp.
//
// Each block has its own scales on both sides, so its sums leave the tiles after 32 of k: tiles of tokens are 32 bytes wide, those of weights
// have 8 lines. Where codes have an offset it is taken off when a panel is widened, and weights are signed; the odd block's stay as much
// too large as Codes gives them (16 (code - 8) is -128 to 112), since their scale is made for that: the bits are those of avx512_vnni.
//
// Predicted as in blocks256.hpp, for a unit of 32 tokens x 16 rows x 128 k; with minimums in brackets:
//
//   tiles    8 products at 16, however short a row is: 128
//   loads    8 tiles of tokens at 8, 4 of weights at 4, 32 tokens at 9 (13) vectors on two ports: 64 + 16 + 144 (208) = 224 (288)
//   vectors  32 tokens at 12 (16) instructions on two ports: 192 (256)
//   stores   8 tiles at 16, 32 vectors: 160
//
// So 290 (225) multiply-adds a clock are the ceiling, less 5 % for widening.
#pragma once

#include "driver.hpp"

#include "../avx512_vnni/blocks32.hpp"

namespace quern::cpu::avx512_amx {

template <typename Format, PackedLayout (*Layout)() noexcept>
struct TileBlocks32 {
  using Blocks = Blocks32<Format>;
  using Wide = WidePairs<Format>;
  static constexpr Activations activations = Activations::int8_32;
  static constexpr bool minimums = Format::Head::minimums, zero_points = Format::Head::zeros;
  static constexpr std::int64_t unit_k = 128;
  static constexpr int steps = 2, unit_blocks = 4, sum_ints = 2 * unit_blocks * 256;

  static PackedLayout vnni() noexcept { return Layout(); }
  static std::int64_t packed_bytes(std::int64_t k) noexcept { return Blocks::packed_bytes(k); }
  static constexpr std::int64_t wide_bytes(std::int64_t k) noexcept { return Blocks::wide_bytes(k); }
  static std::int64_t scale_bytes(std::int64_t k) noexcept { return Blocks::scale_bytes(k); }
  static std::int64_t start_bytes(std::int64_t k) noexcept { return Blocks::start_bytes(k); }
  static bool exact(const PackedPart&, std::int64_t) noexcept { return true; }

  /// Tiles 0..3 are sums (of the even block by the first and second tile of tokens, then of the odd one), 4 and 5 tokens, 6 and 7 weights.
  static TileShapes shapes(std::int64_t tokens) noexcept {
    TileShapes shapes;
    for (int tile = 0; tile < 4; ++tile) shapes.set(tile, tokens, tile_bytes);
    for (int tile = 4; tile < 6; ++tile) shapes.set(tile, tokens, 32);
    for (int tile = 6; tile < 8; ++tile) shapes.set(tile, 8, tile_bytes);
    return shapes;
  }

  static void widen(const Byte* p, std::int64_t k, Byte* to) noexcept { Blocks::template widen<!Wide::parts>(p, k, to); }

  template <int Sums, int A, int B>
  QUERN_VNNI_INLINE void product() {
    if constexpr (Wide::parts) multiply_signed_unsigned<Sums, A, B>();
    else multiply_signed<Sums, A, B>();
  }
  QUERN_VNNI_INLINE void begin() {}
  QUERN_VNNI_INLINE void end(const Unit&) {}
  /// 64 of k. If only 32 are left, what the odd block gives is not read: behind a row's codes there is as much again.
  QUERN_VNNI_INLINE void multiply(const Unit& u, int step) {
    if (64 * step >= u.k) return;
    const Byte* weights = u.weights + step * Wide::bytes + Wide::header;
    const std::byte *first = u.rows[0] + 64 * step, *second = u.rows[1] + 64 * step;
    std::int32_t* sums = u.sums + 512 * step;
    zero_tile<0>();
    zero_tile<1>();
    zero_tile<2>();
    zero_tile<3>();
    load_tile<6>(weights, tile_bytes);
    load_tile<4>(first, u.row_bytes);
    product<0, 4, 6>();
    load_tile<5>(second, u.row_bytes);
    product<1, 5, 6>();
    load_tile<7>(weights + 512, tile_bytes);
    load_tile<4>(first + 32, u.row_bytes);
    product<2, 4, 7>();
    load_tile<5>(second + 32, u.row_bytes);
    product<3, 5, 7>();
    store_tile<0>(sums, tile_bytes);
    store_tile<1>(sums + 256 * unit_blocks, tile_bytes);
    store_tile<2>(sums + 256, tile_bytes);
    store_tile<3>(sums + 256 * unit_blocks + 256, tile_bytes);
  }

  /// The tokens of tile `slice`.
  QUERN_VNNI_INLINE void finish(const Unit& u, int slice) {
    if (u.tokens == 0) return;
    if (u.k == unit_k) return finish_blocks<unit_blocks>(u, slice, 0, true, true);
    const std::int64_t blocks = u.k / 32;
    for (std::int64_t b = 0; b < blocks; ++b) finish_blocks<1>(u, slice, b, b == 0, b + 1 == blocks);
  }

 private:
  /// Blocks from number `first` on, two tokens at a time, with the arithmetic of BlockTile::add.
  template <int Count>
  QUERN_VNNI_INLINE void finish_blocks(const Unit& u, int tile, std::int64_t first, bool from_totals, bool to_out) {
    constexpr int C = 2;
    const std::byte* row = u.rows[tile];
    const std::int32_t* sums = u.sums + 256 * (unit_blocks * tile + first);
    float* own = const_cast<float*>(u.totals) + 16 * tile * u.tokens;
    const float* totals = own;
    float* out = to_out ? u.out[tile] : own;
    const std::int64_t row_bytes = u.row_bytes, scales_at = u.scales_at + 4 * first,
                       sums_at = (zero_points ? u.starts_at : u.sums_at) + 4 * first, out_stride = to_out ? u.out_stride : panel_rows;
    const __mmask16 started = from_totals ? u.started : 0xffff, out_rows = to_out ? u.out_rows : 0xffff;
    __m512 d[Count], m[Count];  // m: minimums, or the integers of zero points
    QUERN_VNNI_UNROLL
    for (int b = 0; b < Count; ++b) {
      const Byte* pair = u.weights + (first + b) / 2 * Wide::bytes + (first + b) % 2 * 64;
      d[b] = _mm512_load_ps(pair);
      m[b] = d[b];
      if (Wide::parts) m[b] = _mm512_load_ps(pair + 128);
    }
    for (std::int64_t left = u.tokens; left > 0; left -= C) {
      const std::byte* x[C] = {row, row + row_bytes};
      __m512 f[C];
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) f[c] = _mm512_maskz_load_ps(started, totals + 16 * c);
      QUERN_VNNI_UNROLL
      for (int b = 0; b < Count; ++b) QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) {
        const __m512 scale = _mm512_mul_ps(d[b], broadcast_float(x[c] + scales_at + 4 * b));
        __m512i sum = load(sums + 256 * b + 16 * c);
        if (zero_points) add_products(sum, _mm512_castps_si512(m[b]), broadcast(x[c] + sums_at + 4 * b));
        f[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, f[c]);
        if (minimums) f[c] = _mm512_fmadd_ps(m[b], broadcast_float(x[c] + sums_at + 4 * b), f[c]);
      }
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) _mm512_mask_storeu_ps(out + c * out_stride, out_rows, f[c]);
      row += C * row_bytes;
      sums += 16 * C;
      totals += 16 * C;
      out += C * out_stride;
    }
  }
};

}  // namespace quern::cpu::avx512_amx
