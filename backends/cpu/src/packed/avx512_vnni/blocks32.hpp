// Formats with a scale for 32, 64 or 128 k (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, and those with a word as their head) against int8 activations
// with a scale per 32.
//
// A panel is records of one pair of blocks (64 k), or of two where a scale holds for 128: a head (heads.hpp), then Codes<Bits> for each pair.
// If there is an odd number of blocks, the last pair's odd block is zeros and is not read.
//
// Without a minimum the code is unsigned with an offset: sums start at -offset * (sum of activations) instead of 0, a broadcast
// that costs no multiply port. With a zero point sums start at -zero * (sum of activations), one vpdpwssd. No overflow: |sum| <= 32 * 255 * 127 + 128 * 32 * 127 < 2^21, so its float is exact too.
// For each block of an output: 8 vpdpbusd, a conversion, a product of scales, an fma (and one for the minimum): on Intel, where all
// of them share two ports, 8 / 11 of 128 multiply-adds a clock = 93 is the ceiling (85 with a minimum).
//
// Measured on one busy Cascade Lake core, k = 2048, 16 panels, 256 tokens, of the 128 that a bare vpdpbusd loop gave in between:
// 73-76 (70 with a minimum); 79 at k = 512, where two widened panels fit the L1 cache.
// Tried without gain: broadcasts inside vpdpbusd (for half of the tokens the same, for all 68), prefetch of the widened panels (56:
// the load ports are busy), start values loaded once a sum instead of copied, no second scheduling pass (72).
#pragma once

#include "codes.hpp"
#include "driver.hpp"
#include "transpose.hpp"

namespace quern::cpu::avx512_vnni::packed {

/// Reads packed records.
template <typename Format>
struct PackedPairs {
  using Bits = Codes<Format::bits>;
  using Head = typename Format::Head;
  static constexpr int pairs = Head::group == 128 ? 2 : 1, bytes = Head::bytes + pairs * Bits::bytes;
  /// Of pair `Pair` of a record.
  template <int Odd, int Pair>
  QUERN_VNNI_INLINE __m512i codes(const Byte* p, int j) {
    return Bits::template load<Odd>(p + Head::bytes + Pair * Bits::bytes, j);
  }
  template <int Odd>
  QUERN_VNNI_INLINE __m512 scale(const Byte* p) {
    const __m512 d = Head::template scale<Odd>(p);
    return Odd && Bits::odd_factor != 1 ? divided<Bits::odd_factor>(d) : d;
  }
  template <int Odd>
  QUERN_VNNI_INLINE __m512 minimum(const Byte* p) {
    return Head::template minimum<Odd>(p);
  }
  /// As many times too large as the codes.
  template <int Odd>
  QUERN_VNNI_INLINE __m512i zero(const Byte* p) {
    const __m512i z = Head::template zero<Odd>(p);
    return Odd && Bits::odd_factor != 1 ? _mm512_mullo_epi16(z, _mm512_set1_epi32(Bits::odd_factor)) : z;
  }
};

/// Reads what widen() made: a byte a code, f32 scales, and minimums or zero points.
template <typename Format>
struct WidePairs {
  static constexpr bool parts = Format::Head::minimums || Format::Head::zeros;
  static constexpr int pairs = 1, header = parts ? 256 : 128, bytes = header + 1024;
  template <int Odd, int>
  QUERN_VNNI_INLINE __m512i codes(const Byte* p, int j) {
    return load(p + header + 512 * Odd + 64 * j);
  }
  template <int Odd>
  QUERN_VNNI_INLINE __m512 scale(const Byte* p) {
    return _mm512_load_ps(p + 64 * Odd);
  }
  template <int Odd>
  QUERN_VNNI_INLINE __m512 minimum(const Byte* p) {
    return _mm512_load_ps(p + 128 + 64 * Odd);
  }
  template <int Odd>
  QUERN_VNNI_INLINE __m512i zero(const Byte* p) {
    return load(p + 128 + 64 * Odd);
  }
};

template <typename Format, typename Source, int R, int C>
struct BlockTile {
  const Byte* w[R];
  const std::byte *codes, *scales, *sums;  // sums: with zero points the starts, whose integers are those sums' negatives
  const std::int32_t* side;
  std::int64_t token[C];  // byte offsets of the tokens' rows
  __m512 f[R][C];

  static constexpr bool minimums = Format::Head::minimums, zero_points = Format::Head::zeros;

  template <int Odd>
  QUERN_VNNI_INLINE __m512i start(const BlockTile& t, int r, int c) {
    if constexpr (zero_points) {
      __m512i s = zeros();
      add_products(s, Source::template zero<Odd>(t.w[r]), broadcast(t.sums + t.token[c] + 4 * Odd));
      return s;
    }
    return minimums ? _mm512_setzero_si512() : broadcast(t.side + C * Odd + c);
  }

  /// Adds the block's integer sums of panel r to its float sums.
  template <int Odd>
  QUERN_VNNI_INLINE void add(BlockTile& t, int r, const __m512i (&s)[C]) {
    const __m512 d = Source::template scale<Odd>(t.w[r]);
    __m512 m = d;
    if constexpr (minimums) m = Source::template minimum<Odd>(t.w[r]);
    QUERN_VNNI_UNROLL
    for (int c = 0; c < C; ++c) {
      const __m512 scale = _mm512_mul_ps(d, broadcast_float(t.scales + t.token[c] + 4 * Odd));
      t.f[r][c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s[c]), scale, t.f[r][c]);
      if (minimums) t.f[r][c] = _mm512_fmadd_ps(m, broadcast_float(t.sums + t.token[c] + 4 * Odd), t.f[r][c]);
    }
  }

  template <int Odd, int Pair>
  QUERN_VNNI_INLINE void block(BlockTile& t) {
    __m512i s[R][C];
    QUERN_VNNI_UNROLL
    for (int c = 0; c < C; ++c) QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) s[r][c] = start<Odd>(t, r, c);
    QUERN_VNNI_UNROLL
    for (int j = 0; j < 8; ++j) {
      __m512i weights[R];
      QUERN_VNNI_UNROLL
      for (int r = 0; r < R; ++r) weights[r] = Source::template codes<Odd, Pair>(t.w[r], j);
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) {
        const __m512i x = broadcast(t.codes + t.token[c] + 32 * Odd + 4 * j);
        QUERN_VNNI_UNROLL
        for (int r = 0; r < R; ++r) s[r][c] = _mm512_dpbusd_epi32(s[r][c], weights[r], x);
      }
    }
    QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) {
      if (minimums) end_of_block();
      add<Odd>(t, r, s[r]);
    }
    if (minimums) end_of_block();
  }

  /// Both blocks. One panel has too few sums to fill two ports over the 5 clocks of vpdpbusd: its two blocks go side by side. Not those
  /// of 8 bits, which lie 512 bytes apart: lines read out of order keep the processor's own prefetch from seeing a stream (Zen 4 read
  /// 14 GB/s so, and 26 in order).
  template <int Pair>
  QUERN_VNNI_INLINE void pair(BlockTile& t) {
    if constexpr (R > 1 || Format::bits == 8) {
      block<0, Pair>(t);
      block<1, Pair>(t);
    } else {
      __m512i even[C], odd[C];
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) {
        even[c] = start<0>(t, 0, c);
        odd[c] = start<1>(t, 0, c);
      }
      QUERN_VNNI_UNROLL
      for (int j = 0; j < 8; ++j) {
        const __m512i low = Source::template codes<0, Pair>(t.w[0], j), high = Source::template codes<1, Pair>(t.w[0], j);
        QUERN_VNNI_UNROLL
        for (int c = 0; c < C; ++c) {
          even[c] = _mm512_dpbusd_epi32(even[c], low, broadcast(t.codes + t.token[c] + 4 * j));
          odd[c] = _mm512_dpbusd_epi32(odd[c], high, broadcast(t.codes + t.token[c] + 32 + 4 * j));
        }
      }
      add<0>(t, 0, even);
      add<1>(t, 0, odd);
    }
    t.codes += 64;
    t.scales += 8;
    t.sums += 8;
    t.side += 2 * C;
  }
};

template <typename Format, typename Source, int R, int C, int Ahead>
[[gnu::noinline]] static void block_tile(const Tile& tile) noexcept {
  using T = BlockTile<Format, Source, R, C>;
  T t;
  t.codes = tile.rows;
  t.scales = tile.rows + tile.scales_at;
  t.sums = tile.rows + (Format::Head::zeros ? tile.starts_at : tile.sums_at);
  t.side = tile.side;
  QUERN_VNNI_UNROLL
  for (int r = 0; r < R; ++r) t.w[r] = tile.weights + r * tile.panel_stride;
  QUERN_VNNI_UNROLL
  for (int c = 0; c < C; ++c) {
    t.token[c] = c * tile.row_bytes;
    if (c > 0) asm("" : "+r"(t.token[c]));  // keeps one moving pointer and C fixed offsets, not C moving pointers
    QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) t.f[r][c] = tile.first ? _mm512_setzero_ps() : _mm512_load_ps(tile.totals + 16 * (R * c + r));
  }
  for (std::int64_t records = tile.k / (64 * Source::pairs); records > 0; --records) {
    if (Ahead == in_order) touch_lines<(Source::bytes + 63) / 64>(t.w[0]);
    if (Ahead > 0) prefetch_lines<(Source::bytes + 63) / 64>(t.w[0] + Ahead);
    T::template pair<0>(t);
    if constexpr (Source::pairs == 2) T::template pair<1>(t);
    QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) t.w[r] += Source::bytes;
  }
  if (tile.k % 64 != 0) T::template block<0, 0>(t);
  if (!tile.last) {
    QUERN_VNNI_UNROLL
    for (int c = 0; c < C; ++c) QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) _mm512_store_ps(tile.totals + 16 * (R * c + r), t.f[r][c]);
    return;
  }
  QUERN_VNNI_UNROLL
  for (int r = 0; r < R; ++r) {
    const __mmask16 mask = row_mask(tile.rows_left - panel_rows * r);
    QUERN_VNNI_UNROLL
    for (int c = 0; c < C; ++c) _mm512_mask_storeu_ps(tile.y + c * tile.y_stride + panel_rows * r, mask, t.f[r][c]);
  }
}

/// What Driver wants, and packing. `Format` gives: dtype, bits, Head, offset (codes stand for code - offset), and
/// read(block, part, codes): the 32 codes of a part.
template <typename Format>
struct Blocks32 {
  using Packed = PackedPairs<Format>;
  using Wide = WidePairs<Format>;
  using Bits = Codes<Format::bits>;
  using Head = typename Format::Head;
  static constexpr Activations activations = Activations::int8_32;
  static constexpr int record_k = 64 * Packed::pairs;

  static std::int64_t packed_bytes(std::int64_t k) noexcept { return (k + record_k - 1) / record_k * Packed::bytes; }
  static constexpr std::int64_t wide_bytes(std::int64_t k) noexcept { return (k + 63) / 64 * Wide::bytes; }
  static constexpr std::int64_t side_ints(std::int64_t k) noexcept { return Wide::parts ? 0 : k / 32; }
  static std::int64_t scale_bytes(std::int64_t k) noexcept { return k / 32 * 4; }
  static std::int64_t start_bytes(std::int64_t k) noexcept { return k / 32 * 4; }

  /// Where the sums of a token start: side[b * width] for block b.
  static void prepare(const std::int8_t* codes, std::int64_t k, std::int32_t* side, std::int64_t width) noexcept {
    const __m512i factor = _mm512_setr_epi32(-Format::offset, -Format::offset * Bits::odd_factor, -Format::offset,
                                             -Format::offset * Bits::odd_factor, -Format::offset, -Format::offset * Bits::odd_factor,
                                             -Format::offset, -Format::offset * Bits::odd_factor, 0, 0, 0, 0, 0, 0, 0, 0);
    for (std::int64_t i = 0; i < k; i += 256, side += 8 * width)
      store_lanes(_mm512_mullo_epi32(sums_of_32(codes + i, k - i), factor), lesser(8, (k - i) / 32), side, width);
  }

  /// WithoutOffset: codes come as signed bytes, less their offset (the odd ones as many times too large as they are), for kernels that
  /// multiply signed bytes.
  template <bool WithoutOffset = false>
  static void widen(const Byte* p, std::int64_t k, Byte* to) noexcept {
    const __m512i even_offset = set_bytes(WithoutOffset ? Format::offset : 0),
                  odd_offset = set_bytes(WithoutOffset ? Format::offset * Bits::odd_factor : 0);
    for (std::int64_t i = 0; i < k; i += record_k, p += Packed::bytes) {
      widen_pair<0>(p, even_offset, odd_offset, to);
      to += Wide::bytes;
      if constexpr (Packed::pairs == 2) {
        widen_pair<1>(p, even_offset, odd_offset, to);
        to += Wide::bytes;
      }
    }
  }
  template <int Pair>
  QUERN_VNNI_INLINE void widen_pair(const Byte* p, __m512i even_offset, __m512i odd_offset, Byte* to) {
    _mm512_store_ps(to, Packed::template scale<0>(p));
    _mm512_store_ps(to + 64, Packed::template scale<1>(p));
    if constexpr (Head::minimums) {
      _mm512_store_ps(to + 128, Packed::template minimum<0>(p));
      _mm512_store_ps(to + 192, Packed::template minimum<1>(p));
    }
    if constexpr (Head::zeros) {
      _mm512_store_si512(to + 128, Packed::template zero<0>(p));
      _mm512_store_si512(to + 192, Packed::template zero<1>(p));
    }
    QUERN_VNNI_UNROLL
    for (int j = 0; j < 8; ++j) {
      _mm512_store_si512(to + Wide::header + 64 * j, _mm512_sub_epi8(Packed::template codes<0, Pair>(p, j), even_offset));
      _mm512_store_si512(to + Wide::header + 512 + 64 * j, _mm512_sub_epi8(Packed::template codes<1, Pair>(p, j), odd_offset));
    }
  }

  static void run_direct(const Tile& tile, std::int64_t tokens) noexcept {
    static constexpr void (*tiles[])(const Tile&) noexcept = {
        block_tile<Format, Packed, 1, 1, far_ahead>, block_tile<Format, Packed, 1, 2, far_ahead>,
        block_tile<Format, Packed, 1, 3, far_ahead>, block_tile<Format, Packed, 1, 4, far_ahead>,
        block_tile<Format, Packed, 1, 5, far_ahead>, block_tile<Format, Packed, 1, 6, far_ahead>,
        block_tile<Format, Packed, 1, 7, far_ahead>, block_tile<Format, Packed, 1, 8, far_ahead>};
    static constexpr int light = light_tokens<Format::bits>;
    static constexpr void (*unasked[])(const Tile&) noexcept = {block_tile<Format, Packed, 1, 1, in_order>,
                                                                block_tile<Format, Packed, 1, light, in_order>};
    (tokens <= light && fetches_streams() ? unasked : tiles)[tokens - 1](tile);
  }
  template <int R>
  static void run_wide(const Tile& tile, std::int64_t tokens) noexcept {
    static constexpr void (*tiles[])(const Tile&) noexcept = {
        block_tile<Format, Wide, R, 1, from_cache>, block_tile<Format, Wide, R, 2, from_cache>, block_tile<Format, Wide, R, 3, from_cache>,
        block_tile<Format, Wide, R, 4, from_cache>, block_tile<Format, Wide, R, 5, from_cache>, block_tile<Format, Wide, R, 6, from_cache>};
    tiles[tokens - 1](tile);
  }

  static void pack(const std::byte* source, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* panel) noexcept {
    auto* p = reinterpret_cast<Byte*>(panel);
    alignas(64) Byte codes[panel_rows][64] = {};
    for (std::int64_t i = 0; i < k; i += 64) {
      const int blocks = k - i >= 64 ? 2 : 1, pair = static_cast<int>(i % record_k / 64);
      if (rows < panel_rows || blocks < 2) {  // what no block fills is zeros
        if (pair == 0) __builtin_memset(p, 0, Head::bytes);
        __builtin_memset(codes, 0, sizeof(codes));
      }
      for (std::int64_t row = 0; row < rows; ++row)
        for (int b = 0; b < blocks; ++b) {
          const std::int64_t at = i + 32 * b;
          const Byte* block = reinterpret_cast<const Byte*>(source) + row * stride + at / Head::group * block_bytes_of<Format::dtype>;
          Format::read(block, static_cast<int>(at % Head::group / 32), codes[row] + 32 * b);
          Head::put(p, b, row, block);
        }
      __m512i even[8], odd[8];
      transpose_words(codes[0], sizeof(codes[0]), even);
      transpose_words(codes[0] + 32, sizeof(codes[0]), odd);
      Bits::put(p + Head::bytes + pair * Bits::bytes, even, odd);
      if (pair + 1 == Packed::pairs) p += Packed::bytes;
    }
  }

  static void unpack_row(const std::byte* panel, std::int64_t row, std::int64_t k, float* out) noexcept {
    for (std::int64_t i = 0; i < k; i += 64) {
      const auto* p = reinterpret_cast<const Byte*>(panel) + i / record_k * Packed::bytes;
      Byte codes[2][32];
      Bits::get(p + Head::bytes + i % record_k / 64 * Bits::bytes, static_cast<int>(row), codes[0], codes[1]);
      for (int b = 0; b < 2 && i + 32 * b < k; ++b)
        for (int e = 0; e < 32; ++e) out[i + 32 * b + e] = Head::value(p, b, row, codes[b][e] - Format::offset);
    }
  }

  static PackedLayout layout(const char* key) noexcept {
    return {Format::dtype,
            Isa::avx512,
            key,
            activations,
            panel_rows,
            Head::group,
            packed_bytes,
            pack,
            unpack_row,
            Driver<Blocks32>::multiply,
            Driver<Blocks32>::scratch_floats};
  }
};

/// Nibbles of a canonical block of 32: element i is low in byte i, element i + 16 high in it.
QUERN_VNNI_INLINE void read_nibbles(const Byte* from, Byte* codes) {
  const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), mask = _mm_set1_epi8(15);
  const __m128i low = _mm_and_si128(both, mask), high = _mm_and_si128(_mm_srli_epi16(both, 4), mask);
  _mm256_store_si256(reinterpret_cast<__m256i*>(codes), _mm256_set_m128i(high, low));
}
/// 32 signed bytes, 128 more each.
QUERN_VNNI_INLINE void read_signed(const Byte* from, Byte* codes) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  _mm256_store_si256(reinterpret_cast<__m256i*>(codes), _mm256_xor_si256(bytes, _mm256_set1_epi8(-128)));
}
/// Adds the fifth bits: bit i of a 32-bit word belongs to element i.
QUERN_VNNI_INLINE void read_fifth_bits(const Byte* from, Byte* codes) {
  __mmask32 word;
  __builtin_memcpy(&word, from, 4);
  auto* at = reinterpret_cast<__m256i*>(codes);
  const __m256i low = _mm256_loadu_si256(at);
  _mm256_storeu_si256(at, _mm256_mask_add_epi8(low, word, low, _mm256_set1_epi8(16)));
}

}  // namespace quern::cpu::avx512_vnni::packed
