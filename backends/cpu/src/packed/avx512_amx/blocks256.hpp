// Formats with blocks of 256 and integer sub-scales (Q4_K, Q5_K, Q6_K) by tiles: panels of avx512_vnni/blocks256.hpp.
//
// Tiles know no scales, so a code is multiplied by its sub-scale when its panel is widened, and the product stands in two bytes, each in a
// tile of its own; the block's integer sum is that of the lower tile's sums plus the higher one's times 2^shift.
//
//   Q4_K, Q5_K  the scale is cut, not the product: its lower 4 (3) bits times a code of 4 (5) are at most 225 (217), its upper ones 45 (217).
//               So one 16-bit multiplication of two codes by such a part gives two products in their bytes, with nothing to carry
//   Q6_K        (code - 32) * scale, -4064 to 4096: the higher byte is signed
//
// No overflow: a lower tile's sum is at most 256 * 255 * 127 < 2^23, a higher one's 256 * 217 * 127 < 2^23, a block's 256 * 4096 * 127 < 2^27.
//
// The same bits as avx512_vnni: its sums of Q6_K are integers, as here; those of Q4_K and Q5_K become floats on the way where they are large,
// and are rounded if they pass 2^24. Tokens of which that cannot be excluded are left to it (exact; Starts::exact_word).
//
// Predicted, in clocks of a Sapphire Rapids for a unit of 32 tokens x 16 rows x 256 k; 170 multiply-adds a clock were measured, and why (docs/lab/cpu.md):
//
//   tiles    16 products at 16 (a row of A a clock): 256
//   loads    16 tiles at 8, 32 tokens at 8 vectors (Q6_K 4) on two ports: 128 + 128 (64)
//   vectors  32 tokens at 11 instructions (Q6_K 5) on two ports: 176 (80)
//   stores   4 tiles at 16, 32 vectors: 96
//
// So 512 multiply-adds a clock are the ceiling. Widening a panel's 256 k takes 64 lines of 5 instructions (Q6_K 12), about 190 (400) clocks for the
// 8 units of 256 tokens: 470 (430) are left, of which VNNI's kernels reach nine tenths of theirs. 16 clocks a product, 52 until its sums can be read
// (four sums are under way), 8 a load and 16 a store of a tile are those of Intel's optimisation manual; a port's widths those of Golden Cove.
#pragma once

#include "driver.hpp"

#include "../avx512_vnni/blocks256.hpp"

namespace quern::cpu::avx512_amx {

/// A widened block: d, dmin, four pairs of minimums, then for each 64 k the lower and the higher bytes of products, 16 lines of 4 k each.
struct ScaledBlock {
  static constexpr int minimum_scale_at = 64, minimums_at = 128, products_at = 384, pair_bytes = 2048, bytes = products_at + 4 * pair_bytes;
};

/// `Format` gives what avx512_vnni's block formats do; Layout its layout.
template <typename Format, PackedLayout (*Layout)() noexcept>
struct TileBlocks256 {
  using Packed = PackedBlock<Format>;
  using Bits = Codes<Format::bits>;
  static constexpr Activations activations = Activations::int8_256;
  static constexpr std::int64_t unit_k = 256;
  static constexpr int steps = 4, sum_ints = 4 * 256;
  /// Bits of a scale that its lower part has; of Q6_K, of a product.
  static constexpr int shift = Format::bits == 4 ? 4 : Format::bits == 5 ? 3 : 8;

  static PackedLayout vnni() noexcept { return Layout(); }
  static std::int64_t packed_bytes(std::int64_t k) noexcept { return k / 256 * Packed::bytes; }
  static constexpr std::int64_t wide_bytes(std::int64_t k) noexcept { return k / 256 * ScaledBlock::bytes; }
  static std::int64_t scale_bytes(std::int64_t k) noexcept { return k / 256 * 4; }
  static std::int64_t start_bytes(std::int64_t k) noexcept { return k / 256 * Starts::words * 4; }

  static bool exact(const PackedPart& part, std::int64_t token) noexcept {
    if (!Format::minimums) return true;
    const ActivationRow row = activation_row(activations, part.activations + token * activation_row_bytes(activations, part.k), part.k);
    const std::int32_t* word = row.starts + part.k / 256 * Starts::words + Starts::exact_word;
    std::int32_t all = -1;
    for (std::int64_t k = 0; k < part.k; k += 32 * Starts::small_part, word += Starts::small_words) all &= *word;
    return all == -1;
  }

  /// Tiles 0..3 are sums (first and second tile of tokens by lower bytes, then by higher ones), 4 and 5 tokens, 6 and 7 weights.
  static TileShapes shapes(std::int64_t tokens) noexcept {
    TileShapes shapes;
    for (int tile = 0; tile < 6; ++tile) shapes.set(tile, tokens, tile_bytes);
    for (int tile = 6; tile < 8; ++tile) shapes.set(tile, tile_rows, tile_bytes);
    return shapes;
  }

  /// The same 16 bits in both halves of a lane.
  QUERN_VNNI_INLINE __m512i in_both(__m512i words) {
    return _mm512_or_si512(_mm512_and_si512(words, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32(words, 16));
  }

  /// Products of four k of 16 rows: their lower and their higher bytes, for codes as Bits::load gives them.
  template <int Odd>
  QUERN_VNNI_INLINE void put_products(__m512i codes, __m512i scale, Byte* to) {
    if constexpr (Format::signed_scales) {
      const __m512i high_bytes = _mm512_set1_epi16(static_cast<short>(0xff00));
      if (!Odd) codes = _mm512_slli_epi16(codes, 2);     // the odd ones are four times as large already
      codes = _mm512_xor_si512(codes, set_bytes(0x80));  // 4 (code - 32), signed
      // (1024 (code - 32)) (64 scale) / 2^16
      const __m512i even = _mm512_mulhi_epi16(_mm512_slli_epi16(codes, 8), scale),
                    odd = _mm512_mulhi_epi16(_mm512_and_si512(codes, high_bytes), scale);
      _mm512_store_si512(to, select(high_bytes, _mm512_slli_epi16(odd, 8), even));
      _mm512_store_si512(to + 1024, select(high_bytes, odd, _mm512_srli_epi16(even, 8)));
    } else {
      if (Odd) codes = _mm512_srli_epi16(codes, __builtin_ctz(Bits::odd_factor));
      constexpr int lower = (1 << shift) - 1;
      _mm512_store_si512(to, _mm512_mullo_epi16(codes, _mm512_and_si512(scale, _mm512_set1_epi16(lower))));
      _mm512_store_si512(to + 1024, _mm512_mullo_epi16(codes, _mm512_srli_epi16(scale, shift)));
    }
  }
  template <int Odd>
  QUERN_VNNI_INLINE void widen_32(const Byte* p, int pair, Byte* to) {
    constexpr int groups = Format::scale_span / 4;
    QUERN_VNNI_UNROLL
    for (int half = 0; half < 32 / Format::scale_span; ++half) {
      __m512i scale = Packed::template whole_scale<Odd>(p, pair, half);
      if (Format::signed_scales) scale = _mm512_slli_epi32(scale, 6);
      scale = in_both(scale);
      QUERN_VNNI_UNROLL
      for (int j = groups * half; j < groups * (half + 1); ++j)
        put_products<Odd>(Packed::template codes<Odd>(p, pair, j), scale, to + 512 * Odd + 64 * j);
    }
  }
  static void widen(const Byte* p, std::int64_t k, Byte* to) noexcept {
    for (std::int64_t i = 0; i < k; i += 256, p += Packed::bytes, to += ScaledBlock::bytes) {
      _mm512_store_ps(to, load_halves(p));
      if (Format::minimums) _mm512_store_ps(to + ScaledBlock::minimum_scale_at, Packed::minimum_scale(p));
      for (int pair = 0; pair < 4; ++pair) {
        if (Format::minimums) _mm512_store_si512(to + ScaledBlock::minimums_at + 64 * pair, Packed::minimum_pair(p, pair));
        widen_32<0>(p, pair, to + ScaledBlock::products_at + ScaledBlock::pair_bytes * pair);
        widen_32<1>(p, pair, to + ScaledBlock::products_at + ScaledBlock::pair_bytes * pair);
      }
    }
  }

  QUERN_VNNI_INLINE void begin() {
    zero_tile<0>();
    zero_tile<1>();
    zero_tile<2>();
    zero_tile<3>();
  }
  /// 64 of k.
  QUERN_VNNI_INLINE void multiply(const Unit& u, int step) {
    const Byte* weights = u.weights + ScaledBlock::products_at + ScaledBlock::pair_bytes * step;
    load_tile<6>(weights, tile_bytes);
    load_tile<4>(u.rows[0] + 64 * step, u.row_bytes);
    multiply_signed_unsigned<0, 4, 6>();
    load_tile<5>(u.rows[1] + 64 * step, u.row_bytes);
    multiply_signed_unsigned<1, 5, 6>();
    load_tile<7>(weights + 1024, tile_bytes);
    if constexpr (Format::signed_scales) {
      multiply_signed<2, 4, 7>();
      multiply_signed<3, 5, 7>();
    } else {
      multiply_signed_unsigned<2, 4, 7>();
      multiply_signed_unsigned<3, 5, 7>();
    }
  }
  /// The sums of each tile of tokens: the lower ones, then the higher ones.
  QUERN_VNNI_INLINE void end(const Unit& u) {
    store_tile<0>(u.sums, tile_bytes);
    store_tile<1>(u.sums + 512, tile_bytes);
    store_tile<2>(u.sums + 256, tile_bytes);
    store_tile<3>(u.sums + 768, tile_bytes);
  }

  /// Half of a tile's tokens, with the arithmetic of SuperTile::finish.
  QUERN_VNNI_INLINE void finish(const Unit& u, int slice) {
    if (u.tokens == 0) return;
    const std::int64_t middle = (u.tokens / 2 + 1) / 2 * 2, from = slice % 2 == 0 ? 0 : middle,
                       count = slice % 2 == 0 ? middle : u.tokens - middle;
    if constexpr (Format::minimums) {
      finish_by_two(u, slice / 2, from, count);
    } else {
      if (count == 8) finish_at_once<8>(u, slice / 2, from);
      if (count == 6) finish_at_once<6>(u, slice / 2, from);
      if (count == 4) finish_at_once<4>(u, slice / 2, from);
      if (count == 2) finish_at_once<2>(u, slice / 2, from);
    }
  }

 private:
  QUERN_VNNI_INLINE void finish_by_two(const Unit& u, int tile, std::int64_t from, std::int64_t count) {
    constexpr int C = 2;
    const std::byte* row = u.rows[tile] + from * u.row_bytes;
    const std::int32_t* sums = u.sums + 512 * tile + 16 * from;
    const float* totals = u.totals + 16 * (tile * u.tokens + from);
    float* out = u.out[tile] + from * u.out_stride;
    const std::int64_t row_bytes = u.row_bytes, scales_at = u.scales_at, pairs_at = u.starts_at + 4 * Starts::pairs,
                       out_stride = u.out_stride;
    const __mmask16 started = u.started, out_rows = u.out_rows;
    const __m512 d = _mm512_load_ps(u.weights);
    const __m512 minimum_scale = _mm512_load_ps(u.weights + ScaledBlock::minimum_scale_at);
    __m512i minimums[4];
    QUERN_VNNI_UNROLL
    for (int p = 0; p < 4; ++p) minimums[p] = load(u.weights + ScaledBlock::minimums_at + 64 * p);
    for (; count > 0; count -= C) {
      const std::byte* x[C] = {row, row + row_bytes};
      __m512 sum[C];
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) {
        const __m512i whole = _mm512_add_epi32(load(sums + 16 * c), _mm512_slli_epi32(load(sums + 256 + 16 * c), shift));
        sum[c] = _mm512_mul_ps(_mm512_cvtepi32_ps(whole), d);
      }
      __m512i m[C];
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) m[c] = zeros();
      QUERN_VNNI_UNROLL
      for (int p = 0; p < 4; ++p) QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) m[c] = _mm512_dpwssd_epi32(m[c], minimums[p], broadcast(x[c] + pairs_at + 4 * p));
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) sum[c] = _mm512_fnmadd_ps(minimum_scale, _mm512_cvtepi32_ps(m[c]), sum[c]);
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) {
        const __m512 total = _mm512_fmadd_ps(sum[c], broadcast_float(x[c] + scales_at), _mm512_maskz_load_ps(started, totals + 16 * c));
        _mm512_mask_storeu_ps(out + c * out_stride, out_rows, total);
      }
      row += C * row_bytes;
      sums += 16 * C;
      totals += 16 * C;
      out += C * out_stride;
    }
  }

  /// All of them are read before one is written: 206 multiply-adds a clock of Q6_K where two at a time give 191 (Q4_K would lose 1 %, Q5_K 2 %).
  template <int C>
  QUERN_VNNI_INLINE void finish_at_once(const Unit& u, int tile, std::int64_t from) {
    const std::byte* row = u.rows[tile] + from * u.row_bytes + u.scales_at;
    const std::int32_t* sums = u.sums + 512 * tile + 16 * from;
    const float* totals = u.totals + 16 * (tile * u.tokens + from);
    float* out = u.out[tile] + from * u.out_stride;
    const std::int64_t row_bytes = u.row_bytes, out_stride = u.out_stride;
    const __mmask16 started = u.started, out_rows = u.out_rows;
    const __m512 d = _mm512_load_ps(u.weights);
    __m512 total[C];
    QUERN_VNNI_UNROLL
    for (int c = 0; c < C; ++c) {
      const __m512i whole = _mm512_add_epi32(load(sums + 16 * c), _mm512_slli_epi32(load(sums + 256 + 16 * c), shift));
      const __m512 sum = _mm512_mul_ps(_mm512_cvtepi32_ps(whole), d);
      total[c] = _mm512_fmadd_ps(sum, broadcast_float(row + c * row_bytes), _mm512_maskz_load_ps(started, totals + 16 * c));
    }
    QUERN_VNNI_UNROLL
    for (int c = 0; c < C; ++c) _mm512_mask_storeu_ps(out + c * out_stride, out_rows, total[c]);
  }
};

}  // namespace quern::cpu::avx512_amx
