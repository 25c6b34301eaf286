// Formats with codes of eight bits and a scale for 32 or 128 k: panels of bytes, 256 a block of 8 rows (vector t: byte 4 row + i is
// k = 4 t + i), and what their head (heads.hpp) holds of 8 rows, in records (records.hpp). Codes are signed, or have a zero point.
//
// Two signed bytes cannot go through vpmaddubsw as they are, and two of its products of full bytes do not fit 16 bits. So:
//   direct   |weight| x (activation with the weight's sign): at most 2 x 128 x 127 = 32,512 fits; widened at once by vpmaddwd
//   tiles    16-bit weights and activations through vpmaddwd: no more operations than that, and half of them need a multiply port.
//            Both sides pair k 0 with 2 and 1 with 3 of four, which takes two shifts and no shuffle.
// Codes with a zero point are widened to 16 bits less it, -255 to 255, in both: |sum of 32| <= 32 x 255 x 127 < 2^21.
// The ceiling of the tiles is 24 multiply-adds a clock where there are three vector ports: 16 for each product and each addition.
#pragma once

#include "codes.hpp"
#include "heads.hpp"
#include "multiply.hpp"

namespace quern::cpu::avx2::packed {
namespace {

/// k 0 and 2 of each four as 16-bit numbers; then 1 and 3.
QUERN_AVX2_INLINE __m256i even_bytes(__m256i v) { return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8); }
QUERN_AVX2_INLINE __m256i odd_bytes(__m256i v) { return _mm256_srai_epi16(v, 8); }

/// 16-bit weights of a vector of codes: k 0 and 2 of each four, then 1 and 3.
struct WidePair {
  __m256i even, odd;
};

template <class Format>
struct ByteEngine {
  using Head = typename Format::Head;
  static constexpr Activations activations = Activations::int8_32;
  static constexpr int scale_block = 32;
  static constexpr bool mins_apart = false, copies = true;  // tiles read the activations in 16 bits
  static constexpr int tile_tokens = 5;
  static constexpr int block = 256;
  using At = typename Head::template Records<block>;

  template <int R>
  struct Wide {
    std::int16_t codes[16][R][16];  // 8 times the even pairs, 8 times the odd ones
    float scales[R][8];
  };
  static constexpr std::int64_t chunk = 256, chunk_bytes = chunk / 32 * static_cast<std::int64_t>(sizeof(Wide<2>));

  static std::int64_t panel_bytes(std::int64_t k) noexcept { return At::panel_bytes(k); }
  QUERN_AVX2_INLINE static WidePair widened(__m256i w, const Byte* scales) {
    if constexpr (Head::zeros) {
      const __m256i zero = Head::zero_pair(scales);
      return {_mm256_sub_epi16(_mm256_and_si256(w, _mm256_set1_epi16(255)), zero), _mm256_sub_epi16(_mm256_srli_epi16(w, 8), zero)};
    }
    return {even_bytes(w), odd_bytes(w)};
  }
  /// Four products a lane, of the vector whose codes lie at `codes_at`, with four activations.
  QUERN_AVX2_INLINE static __m256i products(__m256i w, const WidePair& wide, __m256i size, __m256i x) {
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

  template <int C>
  [[gnu::noinline]] static void direct(const Byte* panel, std::int64_t k, const Tokens& tokens, const DirectScratch& scratch) {
    DirectSums<C> main(scratch.main);
    const bool ask = asks_ahead<C>();
    const Byte* x_at[C];
    for (int c = 0; c < C; ++c) {
      x_at[c] = tokens.code(c, 0);
      pin(x_at[c]);
    }
    for (std::int64_t b = 0; b < k / 32; ++b) {
      const Byte* codes_at = At::codes(panel, b);
      for (int n = 0; ask && n < At::lines; ++n) prefetch_far(codes_at + 64 * n);
      __m256i sum[C];
#pragma GCC unroll 8
      for (int t = 0; t < 8; ++t) {
        const __m256i w = load(codes_at + 32 * t), size = _mm256_abs_epi8(w);
        const WidePair wide = widened(w, At::scales(panel, b));
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
          const __m256i product = products(w, wide, size, broadcast4(x_at[c] + 4 * t));
          sum[c] = t == 0 ? product : _mm256_add_epi32(sum[c], product);
          pin(sum[c]);
        }
      }
      const __m256 d = Head::scale(At::scales(panel, b));
      main.settle();
      for (int c = 0; c < C; ++c) {
        x_at[c] += 32;
        main.add_product(c, _mm256_cvtepi32_ps(sum[c]), _mm256_mul_ps(d, tokens.scale(c, b)));
      }
      main.settle();
    }
    for (int c = 0; c < C; ++c) _mm256_store_ps(scratch.main + 8 * c, main.get(c));
  }

  template <int R>
  static void expand(const Byte* panels, std::int64_t k, std::int64_t from, std::int64_t length, Byte* to) {
    auto* wide = reinterpret_cast<Wide<R>*>(to);
    for (std::int64_t b = from / 32; b < (from + length) / 32; ++b, ++wide)
      for (int r = 0; r < R; ++r) {
        const Byte *panel = panels + r * panel_bytes(k), *codes_at = At::codes(panel, b);
        for (int t = 0; t < 8; ++t) {
          const WidePair pair = widened(load(codes_at + 32 * t), At::scales(panel, b));
          store(wide->codes[t][r], pair.even);
          store(wide->codes[t + 8][r], pair.odd);
        }
        _mm256_store_ps(wide->scales[r], Head::scale(At::scales(panel, b)));
      }
  }

  /// R panels x C tokens over a chunk; adds to main, [C][R][8].
  template <int R, int C>
  [[gnu::noinline]] static void tile(const Byte* chunk_at, std::int64_t length, const Tokens& tokens, const TileSums& sums) {
    const auto* wide = reinterpret_cast<const Wide<R>*>(chunk_at);
    float* const main = sums.main;
    const Byte *x_at[C], *scale_at[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      x_at[c] = reinterpret_cast<const Byte*>(tokens.starts + c * tokens.start_words);
      pin(x_at[c]);
      scale_at[c] = reinterpret_cast<const Byte*>(tokens.scales) + c * tokens.row_bytes;
    }
#pragma GCC unroll 1
    for (std::int64_t b = 0; b < length / 32; ++b) {
      __m256i sum[C * R];
#pragma GCC unroll 16
      for (int t = 0; t < 16; ++t) {
        __m256i w[R];
#pragma GCC unroll 2
        for (int r = 0; r < R; ++r) w[r] = load(wide[b].codes[t][r]);
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) {
          const __m256i x = broadcast4(x_at[c] + 64 * b + 4 * t);
#pragma GCC unroll 2
          for (int r = 0; r < R; ++r) {
            const __m256i product = _mm256_madd_epi16(w[r], x);
            sum[c * R + r] = t == 0 ? product : _mm256_add_epi32(sum[c * R + r], product);
            pin(sum[c * R + r]);
          }
        }
      }
      sums_are_in_memory(main);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        const __m256 x_scale = _mm256_broadcast_ss(reinterpret_cast<const float*>(scale_at[c] + 4 * b));
#pragma GCC unroll 2
        for (int r = 0; r < R; ++r) {
          float* at = main + 8 * (c * R + r);
          const __m256 scale = _mm256_mul_ps(_mm256_load_ps(wide[b].scales[r]), x_scale);
          _mm256_store_ps(at, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[c * R + r]), scale, _mm256_load_ps(at)));
        }
      }
      sums_are_in_memory(main);
    }
  }

  static void pack(const std::byte* source, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* to) noexcept {
    constexpr int block_bytes = Head::block_head + Head::group;
    auto* panel = reinterpret_cast<Byte*>(to);
    alignas(32) Byte codes[8][32] = {};  // those of missing rows stay zeros
    At::clear_unused(panel, k);
    for (std::int64_t b = 0; b < k / 32; ++b) {
      Byte* scales = At::scales(panel, b);
      if (rows < 8) __builtin_memset(scales, 0, Head::scale_bytes);
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto* from = reinterpret_cast<const Byte*>(source + row * stride) + b * 32 / Head::group * block_bytes;
        store(codes[row], load_unaligned(from + Head::block_head + b * 32 % Head::group));
        Head::put(scales, row, from);
      }
      __m256i v[8];
      transpose_words(codes[0], sizeof(codes[0]), v);
      for (int t = 0; t < 8; ++t) store(At::codes(panel, b) + 32 * t, v[t]);
    }
  }

  static void unpack_row(const std::byte* from, std::int64_t row, std::int64_t k, float* out) noexcept {
    const auto* panel = reinterpret_cast<const Byte*>(from);
    for (std::int64_t i = 0; i < k; ++i) {
      const Byte code = At::codes(panel, i / 32)[i % 32 / 4 * 32 + 4 * row + i % 4];
      out[i] = Head::value(At::scales(panel, i / 32), row, Head::zeros ? code : static_cast<std::int8_t>(code));
    }
  }

  static constexpr PackedLayout layout() noexcept {
    return {Format::dtype,
            Isa::avx2,
            Format::key,
            activations,
            8,
            Head::group,
            panel_bytes,
            pack,
            unpack_row,
            multiply<ByteEngine>,
            scratch_floats<ByteEngine>};
  }
};

}  // namespace
}  // namespace quern::cpu::avx2::packed
