// Formats with blocks of 256 and integer sub-scales (Q4_K, Q5_K, Q6_K) against int8 activations with a scale per 256.
//
// A panel is blocks of 256 k: d and dmin (f16, 16 rows), sub-scales a byte each, pairs of sub-minimums, then four times Codes<Bits>.
// A sub-block's sum is an integer, and times its scale it is added to the block's; that times d, less dmin * (sum of sub-minimums * sums of
// activations), which is exact in integers too, times the activations' scale is added to the output, once for 256.
//
//   small sums   where no sub-block's sum can pass 16 bits, vpdpwssd multiplies its lower half by the scale and adds: one instruction. The
//                activations tell (Starts::small_words): rows are odd whose sums of 32 come to more than 32767 / 15
//   others       a sum becomes a float, and is multiplied by the scale's. While sums are small all this is exact, since 8 * 63 * 32767 < 2^24,
//                and gives the same bits. Q6_K adds the floats of 64 k as integers, since 4 * 128 * 32 * 1023 < 2^24
//   few tokens   as others: their odd codes are up to 16 times too large (codes.hpp), and so are the sums
// Of 128 multiply-adds a clock Intel's two ports allow 101 with small sums (Q6_K, a scale for 16: 99), else 93 (Q6_K: 77).
//
// No overflow: |sum| <= 32 * 255 * 127 + 128 * 16 * 127 < 2^21; Q6_K's block, 16 * 128 * 16 * 32 * 127 < 2^28; minimums: 8 * 63 * 32 * 127 < 2^21,
// and a sum of 32 activations is at most 4064, so that two of them stand in a 32-bit lane for vpdpwssd.
#pragma once

#include "codes.hpp"
#include "driver.hpp"
#include "transpose.hpp"

namespace quern::cpu::avx512_vnni::packed {

/// Where things are in a packed block. `Format` gives bits, scale_span (32 or 16 values of k a scale) and minimums.
template <typename Format>
struct PackedBlock {
  using Bits = Codes<Format::bits>;
  static constexpr int scales_at = 64, scale_count = 256 / Format::scale_span, minimums_at = scales_at + 16 * scale_count;
  static constexpr int codes_at = minimums_at + (Format::minimums ? 128 : 0), bytes = codes_at + 4 * Bits::bytes;
  static constexpr bool wide = false, small_sums = false;

  /// Sub-block pair `pair`: codes of k = 64 pair + 32 Odd on, group j.
  template <int Odd>
  QUERN_VNNI_INLINE __m512i codes(const Byte* p, int pair, int j) {
    return Bits::template load<Odd>(p + codes_at + pair * Bits::bytes, j);
  }
  /// Scale `half` (0, or 1 where there are two) of those 32 values.
  template <int Odd>
  QUERN_VNNI_INLINE __m512i whole_scale(const Byte* p, int pair, int half) {
    constexpr int each = 32 / Format::scale_span;
    const __m128i bytes8 = _mm_load_si128(reinterpret_cast<const __m128i*>(p + scales_at + 16 * (each * (2 * pair + Odd) + half)));
    return Format::signed_scales ? _mm512_cvtepi8_epi32(bytes8) : _mm512_cvtepu8_epi32(bytes8);
  }
  /// With what the odd codes are too large for taken off.
  template <int Odd>
  QUERN_VNNI_INLINE __m512 scale(const Byte* p, int pair, int half) {
    const __m512 scale = _mm512_cvtepi32_ps(whole_scale<Odd>(p, pair, half));
    return Odd ? divided<Bits::odd_factor>(scale) : scale;
  }
  QUERN_VNNI_INLINE __m512 block_scale(const Byte* p) { return load_halves(p); }
  /// Two minimums in each lane.
  QUERN_VNNI_INLINE __m512i minimum_pair(const Byte* p, int pair) {
    return _mm512_cvtepu8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(p + minimums_at + 32 * pair)));
  }
  QUERN_VNNI_INLINE __m512 minimum_scale(const Byte* p) { return load_halves(p + 32); }
};

/// Reads what widen() made: codes as they are, scales as words whose upper halves are zeros.
template <typename Format, bool SmallSums>
struct WideBlock {
  static constexpr int scales_at = 64, scale_count = 256 / Format::scale_span, minimums_at = scales_at + 64 * scale_count;
  static constexpr int codes_at = minimums_at + (Format::minimums ? 320 : 0), bytes = codes_at + 4096;
  static constexpr bool wide = true, small_sums = SmallSums;
  using Bits = Codes<8>;
  template <int Odd>
  QUERN_VNNI_INLINE __m512i codes(const Byte* p, int pair, int j) {
    return load(p + codes_at + 1024 * pair + 512 * Odd + 64 * j);
  }
  template <int Odd>
  QUERN_VNNI_INLINE __m512i scale_words(const Byte* p, int pair, int half) {
    return load(p + scales_at + 64 * (32 / Format::scale_span * (2 * pair + Odd) + half));
  }
  template <int Odd>
  QUERN_VNNI_INLINE __m512 scale(const Byte* p, int pair, int half) {
    const __m512i words = scale_words<Odd>(p, pair, half);
    return _mm512_cvtepi32_ps(Format::signed_scales ? _mm512_srai_epi32(_mm512_slli_epi32(words, 16), 16) : words);
  }
  QUERN_VNNI_INLINE __m512 block_scale(const Byte* p) { return _mm512_load_ps(p); }
  QUERN_VNNI_INLINE __m512i minimum_pair(const Byte* p, int pair) { return load(p + minimums_at + 64 * pair); }
  QUERN_VNNI_INLINE __m512 minimum_scale(const Byte* p) { return _mm512_load_ps(p + minimums_at + 256); }
};

template <typename Format, typename Source, int R, int C>
struct SuperTile {
  const Byte* w[R];
  const std::byte* x[C];        // the tokens' codes, 64 further with each pair of sub-blocks
  std::int64_t scales, starts;  // from a token's next code to the scale and the starts of its block: few registers are left for addresses
  __m512i f[R][C];              // of this block of 256: integers, or floats (float_sums)
  __m512 part[R][C];            // of these 64 k, where integers are added up from floats

  static constexpr int span = Format::scale_span, groups = span / 4, halves = 32 / span;
  static constexpr bool float_sums = !Source::small_sums && !Format::signed_scales;

  template <int Odd>
  QUERN_VNNI_INLINE __m512i start(const SuperTile& t, int half, int c) {
    return Format::minimums ? zeros() : broadcast(t.x[c] + t.starts + 4 * (2 * Odd + half));
  }
  template <int Odd>
  QUERN_VNNI_INLINE void add(SuperTile& t, int r, int pair, int half, const __m512i (&s)[C]) {
    if constexpr (Source::small_sums) {
      const __m512i scale = Source::template scale_words<Odd>(t.w[r], pair, half);
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) add_products(t.f[r][c], s[c], scale);
    } else if constexpr (float_sums) {
      const __m512 scale = Source::template scale<Odd>(t.w[r], pair, half);
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c)
        t.f[r][c] = _mm512_castps_si512(_mm512_fmadd_ps(_mm512_cvtepi32_ps(s[c]), scale, _mm512_castsi512_ps(t.f[r][c])));
    } else {
      const __m512 scale = Source::template scale<Odd>(t.w[r], pair, half);
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) {
        const __m512 sum = _mm512_cvtepi32_ps(s[c]);
        t.part[r][c] = Odd == 0 && half == 0 ? _mm512_mul_ps(sum, scale) : _mm512_fmadd_ps(sum, scale, t.part[r][c]);
        if (Odd == 1 && half == halves - 1) t.f[r][c] = _mm512_add_epi32(t.f[r][c], _mm512_cvtps_epi32(t.part[r][c]));
      }
    }
  }

  /// 32 values of k of several panels.
  template <int Odd>
  QUERN_VNNI_INLINE void sub_block(SuperTile& t, int pair) {
    QUERN_VNNI_UNROLL
    for (int half = 0; half < halves; ++half) {
      __m512i s[R][C];
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) QUERN_VNNI_UNROLL
      for (int r = 0; r < R; ++r) s[r][c] = start<Odd>(t, half, c);
      QUERN_VNNI_UNROLL
      for (int j = groups * half; j < groups * (half + 1); ++j) {
        __m512i weights[R];
        QUERN_VNNI_UNROLL
        for (int r = 0; r < R; ++r) weights[r] = Source::template codes<Odd>(t.w[r], pair, j);
        QUERN_VNNI_UNROLL
        for (int c = 0; c < C; ++c) {
          const __m512i x = broadcast(t.x[c] + 32 * Odd + 4 * j);
          QUERN_VNNI_UNROLL
          for (int r = 0; r < R; ++r) s[r][c] = _mm512_dpbusd_epi32(s[r][c], weights[r], x);
        }
      }
      QUERN_VNNI_UNROLL
      for (int r = 0; r < R; ++r) add<Odd>(t, r, pair, half, s[r]);
    }
  }

  /// 64 values of k. One panel has too few sums to fill two ports over the 5 clocks of vpdpbusd: all of them go side by side (of
  /// Q6_K up to 4 tokens, of Q5_K up to 7: the registers hold no more), and are added in the order of k.
  QUERN_VNNI_INLINE void pair_of_blocks(SuperTile& t, int pair) {
    if constexpr (R > 1 || (halves == 2 && C > 4) || (Format::bits == 5 && C > 7)) {
      sub_block<0>(t, pair);
      sub_block<1>(t, pair);
    } else {
      __m512i even[halves][C], odd[halves][C];
      QUERN_VNNI_UNROLL
      for (int half = 0; half < halves; ++half) {
        QUERN_VNNI_UNROLL
        for (int c = 0; c < C; ++c) {
          even[half][c] = start<0>(t, half, c);
          odd[half][c] = start<1>(t, half, c);
        }
        QUERN_VNNI_UNROLL
        for (int j = groups * half; j < groups * (half + 1); ++j) {
          const __m512i low = Source::template codes<0>(t.w[0], pair, j), high = Source::template codes<1>(t.w[0], pair, j);
          QUERN_VNNI_UNROLL
          for (int c = 0; c < C; ++c) {
            even[half][c] = _mm512_dpbusd_epi32(even[half][c], low, broadcast(t.x[c] + 4 * j));
            odd[half][c] = _mm512_dpbusd_epi32(odd[half][c], high, broadcast(t.x[c] + 32 + 4 * j));
          }
        }
      }
      QUERN_VNNI_UNROLL
      for (int half = 0; half < halves; ++half) add<0>(t, 0, pair, half, even[half]);
      QUERN_VNNI_UNROLL
      for (int half = 0; half < halves; ++half) add<1>(t, 0, pair, half, odd[half]);
    }
  }

  /// Applies d, subtracts the minimums, applies the activations' scale, and adds to the total, which lives in memory: 12 + 12 sums fill
  /// the registers.
  QUERN_VNNI_INLINE void finish(SuperTile& t, float* total) {
    QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) {
      const __m512 d = Source::block_scale(t.w[r]);
      std::int64_t scales = t.scales, starts = t.starts;
      asm("" : "+r"(scales), "+r"(starts));  // or GCC 12 makes an address of each number that both panels read, and spills them
      __m512 sum[C];
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) {
        sum[c] = _mm512_mul_ps(float_sums ? _mm512_castsi512_ps(t.f[r][c]) : _mm512_cvtepi32_ps(t.f[r][c]), d);
        t.f[r][c] = zeros();
      }
      if (Format::minimums) {  // all tokens side by side: one chain of five instructions behind the other would wait for each
        __m512i m[C];
        QUERN_VNNI_UNROLL
        for (int c = 0; c < C; ++c) m[c] = zeros();
        QUERN_VNNI_UNROLL
        for (int p = 0; p < 4; ++p) {
          const __m512i pair = Source::minimum_pair(t.w[r], p);
          QUERN_VNNI_UNROLL
          for (int c = 0; c < C; ++c) m[c] = _mm512_dpwssd_epi32(m[c], pair, broadcast(t.x[c] + starts + 4 * p));
        }
        const __m512 minimum = Source::minimum_scale(t.w[r]);
        QUERN_VNNI_UNROLL
        for (int c = 0; c < C; ++c) sum[c] = _mm512_fnmadd_ps(minimum, _mm512_cvtepi32_ps(m[c]), sum[c]);
      }
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) {
        float* at = total + 16 * (R * c + r);
        _mm512_store_ps(at, _mm512_fmadd_ps(sum[c], broadcast_float(t.x[c] + scales), _mm512_load_ps(at)));
      }
    }
  }
};

template <typename Format, typename Source, int R, int C, int Ahead>
[[gnu::noinline]] static void super_tile(const Tile& tile) noexcept {
  using T = SuperTile<Format, Source, R, C>;
  float* const total = tile.totals;
  T t;
  // The codes are those of the next block when minimums and scales are wanted, and Q6_K's starts are wanted with each pair.
  t.scales = tile.scales_at - 256;
  t.starts = tile.starts_at + (Format::minimums ? 4 * Starts::pairs - 256 : 4 * (Source::wide ? Starts::wide : Starts::direct));
  QUERN_VNNI_UNROLL
  for (int r = 0; r < R; ++r) t.w[r] = tile.weights + r * tile.panel_stride;
  QUERN_VNNI_UNROLL
  for (int c = 0; c < C; ++c) {
    t.x[c] = tile.rows + c * tile.row_bytes;
    QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) {
      t.f[r][c] = _mm512_setzero_si512();
      if (tile.first) _mm512_store_ps(total + 16 * (R * c + r), _mm512_setzero_ps());
    }
  }
  for (std::int64_t blocks = tile.k / 256; blocks > 0; --blocks) {
    asm volatile("" : : "r"(total) : "memory");  // or the totals take registers, and the inner loop spills
    if (Ahead == in_order) touch_lines<(Source::codes_at + 63) / 64>(t.w[0]);
    for (int pair = 0; pair < 4; ++pair) {
      if (Ahead == in_order) touch_lines<Source::Bits::bytes / 64>(t.w[0] + Source::codes_at + pair * Source::Bits::bytes);
      if (Ahead > 0) prefetch_lines<(Source::bytes + 255) / 256>(t.w[0] + Ahead + pair * ((Source::bytes + 255) / 256 * 64));
      T::pair_of_blocks(t, pair);
      QUERN_VNNI_UNROLL
      for (int c = 0; c < C; ++c) {
        t.x[c] += 64;
        asm("" : "+r"(t.x[c]));
      }
      if (!Format::minimums) t.starts += 16 - 64;
    }
    T::finish(t, total);
    t.scales += 4 - 256;
    t.starts += 4 * Starts::words - (Format::minimums ? 256 : 64);
    QUERN_VNNI_UNROLL
    for (int r = 0; r < R; ++r) t.w[r] += Source::bytes;
  }
  if (!tile.last) return;
  for (int r = 0; r < R; ++r) {
    const __mmask16 mask = row_mask(tile.rows_left - panel_rows * r);
    for (int c = 0; c < C; ++c)
      _mm512_mask_storeu_ps(tile.y + c * tile.y_stride + panel_rows * r, mask, _mm512_load_ps(total + 16 * (R * c + r)));
  }
}

/// What Driver wants, and packing. `Format` gives: dtype, bits, scale_span, signed_scales, minimums, offset (codes stand for
/// code - offset), d_at, small_word (Starts::largest_codes), and read(block, codes, scales, minimums).
template <typename Format>
struct Blocks256 {
  using Packed = PackedBlock<Format>;
  using Wide = WideBlock<Format, false>;
  using SmallSums = WideBlock<Format, true>;
  using Bits = Codes<Format::bits>;
  static constexpr Activations activations = Activations::int8_256;
  static constexpr int halves = 32 / Format::scale_span;

  static constexpr std::int64_t packed_bytes(std::int64_t k) noexcept { return k / 256 * Packed::bytes; }
  static constexpr std::int64_t wide_bytes(std::int64_t k) noexcept { return k / 256 * Wide::bytes; }
  static constexpr std::int64_t side_ints(std::int64_t) noexcept { return 0; }
  static std::int64_t scale_bytes(std::int64_t k) noexcept { return k / 256 * 4; }
  static std::int64_t start_bytes(std::int64_t k) noexcept { return k / 256 * Starts::words * 4; }

  static void widen(const Byte* p, std::int64_t k, Byte* to) noexcept {
    for (std::int64_t i = 0; i < k; i += 256, p += Packed::bytes, to += Wide::bytes) {
      const __m512i lower = _mm512_set1_epi32(0xffff);
      Byte* scales = to + Wide::scales_at;
      _mm512_store_ps(to, load_halves(p));
      for (int pair = 0; pair < 4; ++pair) {
        for (int half = 0; half < halves; ++half, scales += 64)
          _mm512_store_si512(scales, _mm512_and_si512(lower, Packed::template whole_scale<0>(p, pair, half)));
        for (int half = 0; half < halves; ++half, scales += 64)
          _mm512_store_si512(scales, _mm512_and_si512(lower, Packed::template whole_scale<1>(p, pair, half)));
        if (Format::minimums) _mm512_store_si512(to + Wide::minimums_at + 64 * pair, Packed::minimum_pair(p, pair));
        Byte* codes = to + Wide::codes_at + 1024 * pair;
        QUERN_VNNI_UNROLL
        for (int j = 0; j < 8; ++j) {
          _mm512_store_si512(codes + 64 * j, Packed::template codes<0>(p, pair, j));
          _mm512_store_si512(codes + 512 + 64 * j,
                             _mm512_srli_epi16(Packed::template codes<1>(p, pair, j), __builtin_ctz(Bits::odd_factor)));
        }
      }
      if (Format::minimums) _mm512_store_ps(to + Wide::minimums_at + 256, Packed::minimum_scale(p));
    }
  }

  static void run_direct(const Tile& tile, std::int64_t tokens) noexcept {
    static constexpr void (*tiles[])(const Tile&) noexcept = {
        super_tile<Format, Packed, 1, 1, far_ahead>, super_tile<Format, Packed, 1, 2, far_ahead>,
        super_tile<Format, Packed, 1, 3, far_ahead>, super_tile<Format, Packed, 1, 4, far_ahead>,
        super_tile<Format, Packed, 1, 5, far_ahead>, super_tile<Format, Packed, 1, 6, far_ahead>,
        super_tile<Format, Packed, 1, 7, far_ahead>, super_tile<Format, Packed, 1, 8, far_ahead>};
    static constexpr int light = light_tokens<Format::bits>;
    static constexpr void (*unasked[])(const Tile&) noexcept = {super_tile<Format, Packed, 1, 1, in_order>,
                                                                super_tile<Format, Packed, 1, light, in_order>};
    (tokens <= light && fetches_streams() ? unasked : tiles)[tokens - 1](tile);
  }
  template <int R>
  static void run_wide(const Tile& tile, std::int64_t tokens) noexcept {
    static constexpr void (*small[])(const Tile&) noexcept = {
        super_tile<Format, SmallSums, R, 1, from_cache>, super_tile<Format, SmallSums, R, 2, from_cache>,
        super_tile<Format, SmallSums, R, 3, from_cache>, super_tile<Format, SmallSums, R, 4, from_cache>,
        super_tile<Format, SmallSums, R, 5, from_cache>, super_tile<Format, SmallSums, R, 6, from_cache>};
    static constexpr void (*other[])(const Tile&) noexcept = {
        super_tile<Format, Wide, R, 1, from_cache>, super_tile<Format, Wide, R, 2, from_cache>, super_tile<Format, Wide, R, 3, from_cache>};
    if (tile.small_sums) return small[tokens - 1](tile);
    Tile part = tile;  // Q6_K has three sums an output here: half a tile fills the registers
    for (std::int64_t width; tokens > 0; tokens -= width) {
      width = lesser(tokens, 3);
      other[width - 1](part);
      part.rows += width * part.row_bytes;
      part.y += width * part.y_stride;
      part.totals += width * R * panel_rows;
    }
  }

  /// Where a row tells that its sums are small: words behind its first start.
  static std::int64_t small_at(std::int64_t k) noexcept { return k / 256 * Starts::words + Format::small_word; }

  static void pack(const std::byte* source, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* panel) noexcept {
    auto* p = reinterpret_cast<Byte*>(panel);
    alignas(64) Byte codes[panel_rows][256] = {};  // those of missing rows stay zeros
    alignas(64) Byte scales[panel_rows][16] = {};
    for (std::int64_t i = 0; i < k; i += 256, p += Packed::bytes) {
      if (rows < panel_rows || !Format::minimums) __builtin_memset(p, 0, Packed::scales_at);
      if (Format::minimums && rows < panel_rows) __builtin_memset(p + Packed::minimums_at, 0, 128);
      for (std::int64_t row = 0; row < rows; ++row) {
        const Byte* block = reinterpret_cast<const Byte*>(source) + row * stride + i / 256 * block_bytes_of<Format::dtype>;
        Byte minimums[8];
        Format::read(block, codes[row], scales[row], minimums);
        __builtin_memcpy(p + 2 * row, block + Format::d_at, 2);
        if (Format::minimums) {
          __builtin_memcpy(p + 32 + 2 * row, block + Format::d_at + 2, 2);
          QUERN_VNNI_UNROLL
          for (int pair = 0; pair < 4; ++pair) __builtin_memcpy(p + Packed::minimums_at + 32 * pair + 2 * row, minimums + 2 * pair, 2);
        }
      }
      transpose_bytes<Packed::scale_count>(scales, p + Packed::scales_at);
      for (int pair = 0; pair < 4; ++pair) {
        __m512i even[8], odd[8];
        transpose_words(codes[0] + 64 * pair, sizeof(codes[0]), even);
        transpose_words(codes[0] + 64 * pair + 32, sizeof(codes[0]), odd);
        Bits::put(p + Packed::codes_at + pair * Bits::bytes, even, odd);
      }
    }
  }

  static void unpack_row(const std::byte* panel, std::int64_t row, std::int64_t k, float* out) noexcept {
    const auto* p = reinterpret_cast<const Byte*>(panel);
    for (std::int64_t i = 0; i < k; i += 256, p += Packed::bytes) {
      const float d = half_at(p + 2 * row), dmin = Format::minimums ? half_at(p + 32 + 2 * row) : 0.0f;
      for (int b = 0; b < 8; ++b) {
        Byte codes[2][32];
        Bits::get(p + Packed::codes_at + b / 2 * Bits::bytes, static_cast<int>(row), codes[0], codes[1]);
        const float m = Format::minimums ? dmin * static_cast<float>(p[Packed::minimums_at + 32 * (b / 2) + 2 * row + b % 2]) : 0.0f;
        for (int e = 0; e < 32; ++e) {
          const Byte s = p[Packed::scales_at + 16 * ((32 * b + e) / Format::scale_span) + row];
          const float scale = d * static_cast<float>(Format::signed_scales ? static_cast<std::int8_t>(s) : static_cast<int>(s));
          const float x = scale * static_cast<float>(codes[b % 2][e] - Format::offset);
          out[i + 32 * b + e] = Format::minimums ? x - m : x;
        }
      }
    }
  }

  static PackedLayout layout(const char* key) noexcept {
    return {Format::dtype,
            Isa::avx512,
            key,
            activations,
            panel_rows,
            256,
            packed_bytes,
            pack,
            unpack_row,
            Driver<Blocks256>::multiply,
            Driver<Blocks256>::scratch_floats};
  }
};

/// The 12 bytes that hold eight 6-bit scales and minimums of Q4_K and Q5_K, four bytes at a time.
QUERN_VNNI_INLINE void read_sub_scales(const Byte* s, Byte* scales, Byte* minimums) {
  std::uint32_t low, middle, high;
  __builtin_memcpy(&low, s, 4);
  __builtin_memcpy(&middle, s + 4, 4);
  __builtin_memcpy(&high, s + 8, 4);
  const std::uint32_t out[4] = {low & 0x3f3f3f3f, (high & 0x0f0f0f0f) | ((low >> 2) & 0x30303030), middle & 0x3f3f3f3f,
                                ((high >> 4) & 0x0f0f0f0f) | ((middle >> 2) & 0x30303030)};
  __builtin_memcpy(scales, out, 8);
  __builtin_memcpy(minimums, out + 2, 8);
}

QUERN_VNNI_INLINE __m256i load_32(const Byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
QUERN_VNNI_INLINE void store_32(Byte* p, __m256i v) { _mm256_store_si256(reinterpret_cast<__m256i*>(p), v); }
/// 32 codes of the nibbles and of higher bits that stand where they belong in `rest`.
QUERN_VNNI_INLINE void put_codes(Byte* to, __m256i low, __m256i rest, int mask) {
  const __m256i higher = _mm256_and_si256(rest, _mm256_set1_epi8(static_cast<char>(mask)));
  store_32(to, _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)), higher));
}

}  // namespace quern::cpu::avx512_vnni::packed
