// Formats with a scale for 32, 64 or 128 k: panels and kernels. A Format says how many bits a code has and which Head (heads.hpp) goes with it.
//
// A panel is a row of records (records.hpp): the codes of some blocks of 32 (codes.hpp), then what their head holds of 8 rows.
//
// Sums of codes of four and five bits x activations are kept in 16 bits, 16 products in each of two halves of a lane:
//   Q4_1           up to 16 x 15 x 127 = 30,480 fits
//   Q4_0           the bias of 8 is taken off beforehand: a sum starts at -8 x its activations (the `starts`)
//   Q5_0, Q5_1     so too with 16: the sum wraps on its way to 16 products of at most 16 x 127: 32,512 fits; Q5_1 adds the bias again
//                  in 32 bits
//   zero points    as Q4_1; zero x the sum of activations, which the `starts` have too, is taken off in 32 bits
// A single vpmaddubsw gives at most 2 x 31 x 127 = 7,874. Then one vpmaddwd by ones, and to f32: each block has scales of its own.
//
// Codes of eight bits (`bytes`) are signed, or have a zero point. Two signed bytes cannot go through vpmaddubsw as they are, and two of its
// products of full bytes do not fit 16 bits. So their sums have 32 bits:
//   direct   |weight| x (activation with the weight's sign): at most 2 x 128 x 127 = 32,512 fits; widened at once by vpmaddwd
//   tiles    16-bit weights and activations through vpmaddwd: no more operations than that, and half of them need a multiply port.
//            Both sides pair k 0 with 2 and 1 with 3 of four, which takes two shifts and no shuffle.
// Codes with a zero point are widened to 16 bits less it, -255 to 255, in both: |sum of 32| <= 32 x 255 x 127 < 2^21.
// The ceiling of the tiles is 24 multiply-adds a clock where there are three vector ports: 16 for each product and each addition.
//
// Codes of four bits that stand for numbers of a table (`levels`) become these numbers in 16 bits, as multiples of 1 / LevelTable::units:
//   direct   4,096 is added, so that upper bits (64 times 0 to 128) and the lower 6 come by a shuffle each. Upper ones go through vpmaddubsw, at most
//            2 x 128 x 127 = 32,512, and vpmaddwd; of lower ones two products of vpmaddubsw, 2 x 2 x 63 x 127 = 32,004, go through one vpmaddwd.
//            The start takes the 4,096 off again, exactly: |sum of 32| <= 32 x 8,192 x 127 < 2^25.
//   tiles    as bytes, with the numbers themselves.
// A number is off by at most 2^-13 times the scale. QUERN_CONVERT_INT8 allows 1/254 of the largest of a block's weights, which is 0 or at least 0.0796
// scales in NF4: 2^-11.6. FP4's numbers are whole multiples. Rounding the activations moves a product by up to half their scale times
// its weight, and this by up to 127 x 2^-13 of their scale: 1/32 of what it moves that of the largest weight.
#pragma once

#include "codes.hpp"
#include "heads.hpp"
#include "multiply.hpp"

namespace quern::cpu::avx2::packed {
namespace {

/// k 0 and 2 of each four as 16-bit numbers; then 1 and 3.
QUERN_AVX2_INLINE __m256i even_bytes(__m256i v) { return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8); }
QUERN_AVX2_INLINE __m256i odd_bytes(__m256i v) { return _mm256_srai_epi16(v, 8); }

/// Bytes of 16 codes, in both halves of a vector.
struct LevelBytes {
  alignas(32) Byte of[32];
};

/// The numbers of a table as multiples of 1 / Units.
template <const float* Values, int Units>
struct LevelTable {
  static constexpr const float* values = Values;
  static constexpr float units = Units;
  static constexpr int level(int code) {
    const float scaled = values[code] * Units;
    return static_cast<int>(scaled < 0 ? scaled - 0.5f : scaled + 0.5f);
  }
  /// Bits of the numbers plus `more_than`, from bit `shift` on.
  static constexpr LevelBytes bytes(int more_than, int shift, int mask) {
    LevelBytes made{};
    for (int n = 0; n < 32; ++n) made.of[n] = static_cast<Byte>((level(n % 16) + more_than) >> shift & mask);
    return made;
  }
  static constexpr int more = 4096;
  static_assert(Units <= more);
  static constexpr LevelBytes upper = bytes(more, 6, 255), lower = bytes(more, 0, 63);    // of numbers from 0 on
  static constexpr LevelBytes high_byte = bytes(0, 8, 255), low_byte = bytes(0, 0, 255);  // of 16 bits with a sign
};

/// 16-bit weights of a vector of codes: k 0 and 2 of each four, then 1 and 3.
struct WidePair {
  __m256i even, odd;
};

template <class Format>
struct Engine32 {
  static constexpr Activations activations = Activations::int8_32;
  static constexpr int bits = Format::bits, scale_block = 32;
  using Head = typename Format::Head;
  static constexpr bool levels = requires { typename Format::Levels; };
  static constexpr bool bytes = bits == 8, wide = bytes || levels;  // wide: sums have 32 bits
  static constexpr bool has_mins = Head::minimums, mins_apart = has_mins;
  static constexpr bool zeros = Head::zeros && !bytes;  // taken off sums; off codes where those are bytes
  static constexpr bool copies = wide;                  // tiles read the activations in 16 bits
  static constexpr int tile_tokens = 5;
  static constexpr std::int64_t most_direct = levels ? 2 : direct_tokens;  // registers hold no sums of more beside the tables of levels
  static constexpr int bias = wide ? 0 : bits == 5 ? 16 : has_mins || zeros ? 0 : 8;
  static constexpr bool starts = bias != 0 || zeros;
  static constexpr int start_block = 32;
  static constexpr int vectors = wide ? 16 : 8;  // of a block of a panel in a chunk
  using Block = Codes<bits>;
  using At = typename Head::template Records<Block::bytes>;

  template <int R>
  struct Wide {
    Byte codes[vectors][R][32];  // those of wide sums as 16-bit numbers: 8 times the even pairs, 8 times the odd ones
    float scales[R][8];
    float mins[has_mins ? R : 1][8];
    std::int32_t zeros[Engine32::zeros ? R : 1][8];  // zero points, in both halves of a lane
  };
  static constexpr std::int64_t chunk = wide ? 256 : 512, chunk_bytes = chunk / 32 * static_cast<std::int64_t>(sizeof(Wide<2>));

  static std::int64_t panel_bytes(std::int64_t k) noexcept { return At::panel_bytes(k); }
  static constexpr std::int64_t first_start(std::int64_t) { return 0; }

  /// Of a row's start, which takes off 8.
  QUERN_AVX2_INLINE static __m256i bias_of(__m256i start) { return bias == 16 ? _mm256_slli_epi16(start, 1) : start; }
  /// What a direct sum begins with: the bias, or the 4,096 of levels.
  QUERN_AVX2_INLINE static __m256i first_sum(__m256i start) {
    return levels ? _mm256_madd_epi16(start, _mm256_set1_epi16(512)) : bias_of(start);
  }
  QUERN_AVX2_INLINE static __m256i zero_pair(const Byte* scales) {
    if constexpr (zeros) return Head::zero_pair(scales);
    else return _mm256_setzero_si256();
  }
  QUERN_AVX2_INLINE static WidePair widened(__m256i w, const Byte* scales) {
    if constexpr (Head::zeros) {
      const __m256i zero = Head::zero_pair(scales);
      return {_mm256_sub_epi16(_mm256_and_si256(w, _mm256_set1_epi16(255)), zero), _mm256_sub_epi16(_mm256_srli_epi16(w, 8), zero)};
    }
    if constexpr (levels) {
      const __m256i low = level_bytes(Format::Levels::low_byte, w), high = level_bytes(Format::Levels::high_byte, w);
      return {_mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi16(255)), _mm256_slli_epi16(high, 8)),
              _mm256_or_si256(_mm256_srli_epi16(low, 8), _mm256_andnot_si256(_mm256_set1_epi16(255), high))};
    }
    return {even_bytes(w), odd_bytes(w)};
  }
  QUERN_AVX2_INLINE static __m256i level_bytes(const LevelBytes& table, __m256i codes) {
    return _mm256_shuffle_epi8(load(table.of), codes);
  }
  QUERN_AVX2_INLINE static __m256 scale_of(const Byte* scales) {
    if constexpr (levels) return _mm256_mul_ps(Head::scale(scales), _mm256_set1_ps(1.0f / Format::Levels::units));
    return Head::scale(scales);
  }
  /// Of codes with levels, 4,096 times the activations too much. The lower bits of two vectors, t and t + 4, are added up before they are widened.
  QUERN_AVX2_INLINE static __m256i level_products(int t, __m256i codes, __m256i x, __m256i& lower) {
    const __m256i upper = _mm256_madd_epi16(_mm256_maddubs_epi16(level_bytes(Format::Levels::upper, codes), x), _mm256_set1_epi16(64));
    const __m256i here = _mm256_maddubs_epi16(level_bytes(Format::Levels::lower, codes), x);
    if (t < 4) {
      lower = here;
      return upper;
    }
    return _mm256_add_epi32(upper, _mm256_madd_epi16(_mm256_add_epi16(lower, here), _mm256_set1_epi16(1)));
  }
  /// Four products a lane of codes that are bytes with four activations.
  QUERN_AVX2_INLINE static __m256i byte_products(__m256i w, const WidePair& wide, __m256i size, __m256i x) {
    if constexpr (Head::zeros)
      return _mm256_add_epi32(_mm256_madd_epi16(wide.even, even_bytes(x)), _mm256_madd_epi16(wide.odd, odd_bytes(x)));
    return _mm256_madd_epi16(_mm256_maddubs_epi16(size, _mm256_sign_epi8(x, w)), _mm256_set1_epi16(1));
  }
  static constexpr std::int64_t copy_words(std::int64_t k) { return k / 2; }
  static void copy_codes(const Byte* codes, std::int64_t k, std::int32_t* to) {
    for (std::int64_t i = 0; i < k; i += 32) {
      const __m256i v = load(codes + i);
      store(to + i / 2, even_bytes(v));
      store(to + i / 2 + 8, odd_bytes(v));
    }
  }

  QUERN_AVX2_INLINE static __m256i add(__m256i a, __m256i b) { return wide ? _mm256_add_epi32(a, b) : _mm256_add_epi16(a, b); }
  /// The block's sum; with minimums the bias that `start` took off comes back as integers: in floats it would swallow a small minimum.
  QUERN_AVX2_INLINE static __m256 as_float(__m256i sums, __m256i start, __m256i zero) {
    if constexpr (wide) return _mm256_cvtepi32_ps(sums);
    const __m256i one = _mm256_set1_epi16(1), total = _mm256_madd_epi16(sums, one);
    if constexpr (zeros) return _mm256_cvtepi32_ps(_mm256_add_epi32(total, _mm256_srai_epi32(_mm256_madd_epi16(start, zero), 3)));
    return _mm256_cvtepi32_ps(has_mins && bias != 0 ? _mm256_sub_epi32(total, _mm256_madd_epi16(start, one)) : total);
  }

  /// One panel against C tokens, all of k.
  template <int C>
  [[gnu::noinline]] static void direct(const Byte* panel, std::int64_t k, const Tokens& tokens, const DirectScratch& scratch) {
    constexpr int halves = C <= 2 && !wide ? 2 : 1;  // 16-bit sums a token: for few tokens two, that no chain of additions is too long
    DirectSums<C> main(scratch.main), mins(scratch.mins);
    const bool ask = asks_ahead<C>();
    const Byte* x_at[C];
    for (int c = 0; c < C; ++c) {
      x_at[c] = tokens.code(c, 0);
      pin(x_at[c]);
    }
    for (std::int64_t b = 0; b < k / 32; ++b) {
      const Byte *codes_at = At::codes(panel, b), *scales = At::scales(panel, b);
      for (int n = 0; ask && n < At::lines; ++n) prefetch_far(codes_at + 64 * n);
      __m256i sum[halves][C], lower[C];
      Block::template read<(C > 1)>(
          codes_at, [&](int t, __m256i codes) __attribute__((always_inline)) {
            const __m256i size = _mm256_abs_epi8(codes);
            const WidePair pair = widened(codes, scales);
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
              __m256i& s = sum[t / 4 % halves][c];
              const __m256i x = broadcast4(x_at[c] + 4 * t);
              __m256i product;
              if constexpr (levels) product = level_products(t, codes, x, lower[c]);
              else product = bytes ? byte_products(codes, pair, size, x) : _mm256_maddubs_epi16(codes, x);
              if (t % (8 / halves) != 0) s = add(s, product);
              else s = t == 0 && (bias != 0 || levels) ? add(first_sum(tokens.start(c, b)), product) : product;
              pin(s);
            }
          });
      const __m256 d = scale_of(scales);
      const __m256i zero = zero_pair(scales);
      main.settle();
      for (int c = 0; c < C; ++c) {
        x_at[c] += 32;
        const __m256i s = halves == 2 ? _mm256_add_epi16(sum[0][c], sum[halves - 1][c]) : sum[0][c];
        main.add_product(c, as_float(s, starts ? bias_of(tokens.start(c, b)) : s, zero), _mm256_mul_ps(d, tokens.scale(c, b)));
        if constexpr (has_mins) mins.add_product(c, Head::minimum(scales), tokens.sum(c, b));
      }
      main.settle();
    }
    for (int c = 0; c < C; ++c) _mm256_store_ps(scratch.main + 8 * c, has_mins ? _mm256_add_ps(main.get(c), mins.get(c)) : main.get(c));
  }

  template <int R>
  static void expand(const Byte* panels, std::int64_t k, std::int64_t from, std::int64_t length, Byte* to) {
    auto* span = reinterpret_cast<Wide<R>*>(to);
    for (std::int64_t b = from / 32; b < (from + length) / 32; ++b, ++span)
      for (int r = 0; r < R; ++r) {
        const Byte *panel = panels + r * panel_bytes(k), *scales = At::scales(panel, b);
        Block::template read<false>(
            At::codes(panel, b), [&](int t, __m256i codes) __attribute__((always_inline)) {
              const WidePair pair = widened(codes, scales);
              store(span->codes[t][r], wide ? pair.even : codes);
              if constexpr (wide) store(span->codes[t + 8][r], pair.odd);
            });
        _mm256_store_ps(span->scales[r], scale_of(scales));
        if constexpr (has_mins) _mm256_store_ps(span->mins[r], Head::minimum(scales));
        if constexpr (zeros) store(span->zeros[r], zero_pair(scales));
      }
  }

  /// R panels x C tokens over a chunk; adds to main and mins, [C][R][8] each.
  template <int R, int C>
  [[gnu::noinline]] static void tile(const Byte* chunk_at, std::int64_t length, const Tokens& tokens, const TileSums& sums) {
    const auto* span = reinterpret_cast<const Wide<R>*>(chunk_at);
    float* const main = sums.main;
    const Byte *x_at[C], *scale_at[C], *start_at[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      x_at[c] = wide ? reinterpret_cast<const Byte*>(tokens.starts + c * tokens.start_words) : tokens.code(c, 0);
      pin(x_at[c]);
      scale_at[c] = reinterpret_cast<const Byte*>(tokens.scales) + c * tokens.row_bytes;
      start_at[c] = reinterpret_cast<const Byte*>(tokens.starts + c * tokens.start_words);
    }
#pragma GCC unroll 1
    for (std::int64_t b = 0; b < length / 32; ++b) {
      __m256i sum[C * R];
#pragma GCC unroll 16
      for (int t = 0; t < vectors; ++t) {
        __m256i w[R];
#pragma GCC unroll 2
        for (int r = 0; r < R; ++r) w[r] = load(span[b].codes[t][r]);
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) {
          const __m256i x = broadcast4(x_at[c] + 4 * vectors * b + 4 * t);
          const __m256i start = bias != 0 && t == 0 ? bias_of(broadcast4(start_at[c] + 4 * b)) : x;
#pragma GCC unroll 2
          for (int r = 0; r < R; ++r) {
            const __m256i product = wide ? _mm256_madd_epi16(w[r], x) : _mm256_maddubs_epi16(w[r], x);
            if (t != 0) sum[c * R + r] = add(sum[c * R + r], product);
            else sum[c * R + r] = bias != 0 ? _mm256_add_epi16(product, start) : product;
            pin(sum[c * R + r]);
          }
        }
      }
      sums_are_in_memory(main);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        const __m256i start = bias_of(broadcast4(starts ? start_at[c] + 4 * b : x_at[c]));
        const __m256 x_scale = _mm256_broadcast_ss(reinterpret_cast<const float*>(scale_at[c] + 4 * b));
#pragma GCC unroll 2
        for (int r = 0; r < R; ++r) {
          float* at = main + 8 * (c * R + r);
          const __m256 scale = _mm256_mul_ps(_mm256_load_ps(span[b].scales[r]), x_scale);
          const __m256i zero = zeros ? load(span[b].zeros[zeros ? r : 0]) : start;
          _mm256_store_ps(at, _mm256_fmadd_ps(as_float(sum[c * R + r], start, zero), scale, _mm256_load_ps(at)));
        }
      }
      sums_are_in_memory(main);
    }
    if constexpr (has_mins) add_mins<R, C>(span, length / 32, tokens, sums.mins);
  }

  template <int R, int C>
  QUERN_AVX2_INLINE static void add_mins(const Wide<R>* span, std::int64_t blocks, const Tokens& tokens, float* mins) {
    __m256 sum[C * R];
    const float* sums_at[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c)
      sums_at[c] = reinterpret_cast<const float*>(reinterpret_cast<const Byte*>(tokens.sums) + c * tokens.row_bytes);
#pragma GCC unroll 16
    for (int n = 0; n < C * R; ++n) sum[n] = _mm256_load_ps(mins + 8 * n);
#pragma GCC unroll 1
    for (std::int64_t b = 0; b < blocks; ++b)
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c)
#pragma GCC unroll 2
        for (int r = 0; r < R; ++r)
          sum[c * R + r] = _mm256_fmadd_ps(_mm256_load_ps(span[b].mins[r]), _mm256_broadcast_ss(sums_at[c] + b), sum[c * R + r]);
#pragma GCC unroll 16
    for (int n = 0; n < C * R; ++n) _mm256_store_ps(mins + 8 * n, sum[n]);
  }

  // Packing.

  static constexpr int part_bytes = (bits - 4) * 4 + 16;  // of 32 codes of a canonical block

  /// A byte an element; or element i in the low half of byte i, and i + 16 in its high half. A fifth bit is bit i of a word in front.
  QUERN_AVX2_INLINE static void read(const Byte* part, Byte* codes) {
    if constexpr (bytes) return store(codes, load_unaligned(part));
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(part + part_bytes - 16));
    __m256i fifth = _mm256_setzero_si256();
    if constexpr (bits == 5) {
      const __m256i word = _mm256_set1_epi32(static_cast<int>(word_at(part)));
      const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
      const __m256i bit_of = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
      fifth = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(word, byte_of), bit_of), bit_of);
    }
    put_codes(codes, _mm256_set_m128i(_mm_srli_epi16(both, 4), both), fifth, 16);
  }

  static void pack(const std::byte* source, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* to) noexcept {
    alignas(32) Byte codes[8][32] = {};  // those of missing rows stay zeros
    auto* panel = reinterpret_cast<Byte*>(to);
    At::clear_unused(panel, k);
    for (std::int64_t b = 0; b < k / 32; ++b) {
      Byte* scales = At::scales(panel, b);
      if (rows < 8) __builtin_memset(scales, 0, Head::scale_bytes);
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto* block = reinterpret_cast<const Byte*>(source + row * stride) + b * 32 / Head::group * block_bytes_of<Format::dtype>;
        read(block + Head::block_head + b * 32 % Head::group / 32 * part_bytes, codes[row]);
        Head::put(scales, row, block);
      }
      pack_codes<bits>(codes[0], sizeof(codes[0]), At::codes(panel, b));
    }
  }

  static void unpack_row(const std::byte* from, std::int64_t row, std::int64_t k, float* out) noexcept {
    const auto* panel = reinterpret_cast<const Byte*>(from);
    for (std::int64_t b = 0; b < k / 32; ++b, out += 32) {
      Byte codes[32];
      unpack_codes<bits>(At::codes(panel, b), static_cast<int>(row), codes);
      for (int i = 0; i < 32; ++i) {
        const int code = bytes && !Head::zeros ? static_cast<std::int8_t>(codes[i]) : codes[i] - (has_mins ? 0 : bias);
        if constexpr (levels) out[i] = Head::value(At::scales(panel, b), row, 1) * Format::Levels::values[codes[i]];
        else out[i] = Head::value(At::scales(panel, b), row, code);
      }
    }
  }

  static constexpr PackedLayout layout() noexcept {
    return {Format::dtype,           Isa::avx2, Format::key, activations, 8, Head::group, panel_bytes, pack, unpack_row, multiply<Engine32>,
            scratch_floats<Engine32>};
  }
};

}  // namespace
}  // namespace quern::cpu::avx2::packed
