// Q4_K, Q5_K and Q6_K: panels and kernels. A Format says how many bits a code has and what its scales are.
//
// A panel is one record for 256 k of 8 rows:
//   scales   16 bytes a pair: 8 rows of one scale, 8 rows of the next. Q4_K and Q5_K have 4 pairs (a scale for 32 k), Q6_K 8 (16 k)
//   mins     4 pairs: 8 times (a block's minimum, the next block's) (not Q6_K)
//   d, dm    8 halves each; Q6_K has 16 bytes unused
//   codes    8 blocks of 32 k (codes.hpp)
// in the order in which they are read: with the scales behind the codes, Zen 4 fetched 22 GB/s a thread ahead instead of 27.
// Six-bit scales stand in bytes: 2.8 % more memory than the canonical block, and no shifts to read them.
//
// Sums: codes x activations in 16 bits, then times the integer scale into 32 bits by one vpmaddwd, to f32 once in 256 k.
//   4 bits   32 k: 8 products x 2 x 15 x 127 = 30,480 fits
//   5 bits   16 k: 4 products x 2 x 31 x 127 = 31,496 fits
//   6 bits   the code's bias of 32 is taken off beforehand: a sum starts at -32 x its activations (the `starts`), and wraps on its way
//            to 8 products of at most 32 x 127: 32,512 fits. A single vpmaddubsw gives at most 2 x 63 x 127 = 16,002.
// The 32-bit sum of 256 k is below 32 x 8128 x 128 x 16 = 2^29. Minimums are summed as integers too, against the sums of codes of two
// blocks at a time (the `starts` of Q4_K and Q5_K).
#pragma once

#include "codes.hpp"
#include "multiply.hpp"

namespace quern::cpu::avx2::packed {
namespace {

template <class Format>
struct KEngine {
  static constexpr Activations activations = Activations::int8_256;
  static constexpr int bits = Format::bits, scale_block = 256;
  static constexpr bool has_mins = bits != 6, mins_apart = false, copies = false;
  static constexpr int tile_tokens = 5;
  static constexpr int scale_groups = bits == 6 ? 16 : 8;  // scales in 256 k
  static constexpr int start_block = bits == 6 ? 16 : 64;
  using Block = Codes<bits>;

  // A record.
  static constexpr int scales_at = 0, mins_at = scales_at + 8 * scale_groups, d_at = mins_at + (has_mins ? 64 : 0), codes_at = d_at + 32;
  static constexpr int record = codes_at + 8 * Block::bytes;

  // An expanded record of R panels: codes as bytes, scales and minimums in 16 bits, d and dm as f32.
  template <int R>
  struct Wide {
    Byte codes[64][R][32];
    std::int16_t scales[scale_groups][R][16];
    std::int16_t mins[has_mins ? 4 : 1][R][16];
    float d[R][8], dm[R][8];
  };
  static constexpr std::int64_t chunk = 512, chunk_bytes = (chunk / 256 * static_cast<std::int64_t>(sizeof(Wide<2>)) + 63) / 64 * 64;

  static std::int64_t panel_bytes(std::int64_t k) noexcept { return round_up(k / 256 * record, 64); }
  static constexpr std::int64_t first_start(std::int64_t k) { return bits == 6 ? 0 : k / 16; }

  /// One of a pair of scale rows as 16-bit numbers, twice in each lane.
  QUERN_AVX2_INLINE static __m256i scale_lanes(__m256i pair, bool second) {
    // Signed scales go to the high byte first.
    constexpr int at = bits == 6 ? 8 : 0, zero = static_cast<int>(bits == 6 ? 0x00800080u : 0x80008000u);
    const int from = second ? 0x08 << at | 0x08 << (at + 16) : 0;
    const auto row = [&](int r) { return zero | from | r << at | r << (at + 16); };
    const __m256i lanes = _mm256_shuffle_epi8(pair, _mm256_setr_epi32(row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)));
    return bits == 6 ? _mm256_srai_epi16(lanes, 8) : lanes;
  }
  QUERN_AVX2_INLINE static __m256i scale_pair(const Byte* from_record, int pair) {
    return _mm256_broadcastsi128_si256(load_half_vector(from_record + scales_at + 16 * pair));
  }
  QUERN_AVX2_INLINE static __m256i min_pair(const Byte* from_record, int pair) {
    return _mm256_cvtepu8_epi16(load_half_vector(from_record + mins_at + 16 * pair));
  }

  /// One panel against C tokens, all of k.
  template <int C>
  [[gnu::noinline]] static void direct(const Byte* panel, std::int64_t k, const Tokens& tokens, const DirectScratch& scratch) {
    constexpr int spans = bits == 4 ? 1 : 2;    // parts of 32 k that have a 16-bit sum of their own, for its range
    constexpr int halves = C <= 2 ? 2 : spans;  // for few tokens two, that no chain of additions is too long
    DirectSums<C, (C > 1)> main(scratch.main), offset(scratch.offset);
    DirectSums<C> total(scratch.block);
    const bool ask = asks_ahead<C>();
    const Byte* x_at[C];
    for (int c = 0; c < C; ++c) {
      x_at[c] = tokens.code(c, 0);
      pin(x_at[c]);
    }
    for (std::int64_t i = 0; i < k; i += 256, panel += record) {
      total.clear();
      offset.clear();
#pragma GCC unroll 1
      for (int p = 0; p < 4; ++p) {
        for (int n = 0; ask && n < (record / 4 + 63) / 64; ++n) prefetch_far(panel + p * (record / 4) + 64 * n);
        __m256i pair = scale_pair(panel, bits == 6 ? 2 * p : p);
#pragma GCC unroll 2
        for (int b = 0; b < 2; ++b) {
          if (bits == 6 && b == 1) pair = scale_pair(panel, 2 * p + 1);
          __m256i sum[halves][C];
          Block::template read<(C > 1)>(
              panel + codes_at + (2 * p + b) * Block::bytes, [&](int t, __m256i codes) __attribute__((always_inline)) {
#pragma GCC unroll 4
                for (int c = 0; c < C; ++c) {
                  __m256i& s = sum[t / 4 % halves][c];
                  const __m256i product = _mm256_maddubs_epi16(codes, broadcast4(x_at[c] + 64 * p + 32 * b + 4 * t));
                  if (t % (8 / halves) != 0) s = _mm256_add_epi16(s, product);
                  else s = bits == 6 ? _mm256_add_epi16(tokens.start(c, i / 16 + 4 * p + 2 * b + t / 4), product) : product;
                  pin(s);
                }
                if (spans == 2 && t == 3) {  // the first span's last vector; its sums need their registers no longer
                  total.settle();
                  const __m256i scale = scale_lanes(pair, bits == 5 && b == 1);
                  for (int c = 0; c < C; ++c) total.add_integers(c, _mm256_madd_epi16(sum[0][c], scale));
                  total.settle();
                }
              });
          total.settle();
          const __m256i scale = scale_lanes(pair, bits == 6 || b == 1);
          for (int c = 0; c < C; ++c) {
            const __m256i s = spans == 1 && halves == 2 ? _mm256_add_epi16(sum[0][c], sum[halves - 1][c]) : sum[halves - 1][c];
            total.add_integers(c, _mm256_madd_epi16(s, scale));
          }
          total.settle();
        }
        if constexpr (has_mins) {
          const __m256i m = min_pair(panel, p);
          for (int c = 0; c < C; ++c) offset.add_integers(c, _mm256_madd_epi16(m, tokens.start(c, i / 64 + p)));
          offset.settle();
        }
      }
      const __m256 d = load_halves(panel + d_at);
      for (int c = 0; c < C; ++c) {
        x_at[c] += 256;
        __m256 block = _mm256_mul_ps(d, total.as_float(c));
        if constexpr (has_mins) block = _mm256_fnmadd_ps(load_halves(panel + d_at + 16), offset.as_float(c), block);
        main.add_product(c, block, tokens.scale(c, i / 256));
      }
      main.settle();
    }
    for (int c = 0; c < C; ++c) _mm256_store_ps(scratch.main + 8 * c, main.get(c));
  }

  template <int R>
  static void expand(const Byte* panel, std::int64_t k, std::int64_t from, std::int64_t length, Byte* to) {
    auto* wide = reinterpret_cast<Wide<R>*>(to);
    for (std::int64_t i = 0; i < length; i += 256, ++wide)
      for (int r = 0; r < R; ++r) {
        const Byte* from_record = panel + r * panel_bytes(k) + (from + i) / 256 * record;
        for (int b = 0; b < 8; ++b)
          Block::template read<false>(from_record + codes_at + b * Block::bytes,
                                      [&](int t, __m256i codes) { store(wide->codes[8 * b + t][r], codes); });
        for (int g = 0; g < scale_groups; ++g) store(wide->scales[g][r], scale_lanes(scale_pair(from_record, g / 2), g % 2 != 0));
        _mm256_store_ps(wide->d[r], load_halves(from_record + d_at));
        if constexpr (has_mins) {
          _mm256_store_ps(wide->dm[r], load_halves(from_record + d_at + 16));
          for (int p = 0; p < 4; ++p) store(wide->mins[p][r], min_pair(from_record, p));
        }
      }
  }

  /// R panels x C tokens over a chunk; adds to main, [C][R][8].
  template <int R, int C>
  [[gnu::noinline]] static void tile(const Byte* chunk_at, std::int64_t length, const Tokens& tokens, const TileSums& sums) {
    constexpr int steps = bits == 4 ? 8 : 4;  // products that a 16-bit sum takes
    const auto* wide = reinterpret_cast<const Wide<R>*>(chunk_at);
    auto* const total = reinterpret_cast<__m256i*>(sums.block);
    float* const main = sums.main;
    for (std::int64_t i = 0; i < length; i += 256, ++wide) {
      for (int n = 0; n < C * R; ++n) store(total + n, _mm256_setzero_si256());
      const Byte *x_at[C], *start_at[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        x_at[c] = tokens.code(c, i);
        pin(x_at[c]);
        start_at[c] = reinterpret_cast<const Byte*>(tokens.starts + c * tokens.start_words + i / start_block);
      }
#pragma GCC unroll 1
      for (std::int64_t g = 0; g < 64 / steps; ++g) {
        __m256i sum[C * R];
#pragma GCC unroll 8
        for (int j = 0; j < steps; ++j) {
          __m256i w[R];
#pragma GCC unroll 2
          for (int r = 0; r < R; ++r) w[r] = load(wide->codes[g * steps + j][r]);
#pragma GCC unroll 8
          for (int c = 0; c < C; ++c) {
            const __m256i x = broadcast4(x_at[c] + 4 * (g * steps + j));
            const __m256i start = bits == 6 && j == 0 ? broadcast4(start_at[c] + 4 * g) : x;
#pragma GCC unroll 2
            for (int r = 0; r < R; ++r) {
              const __m256i product = _mm256_maddubs_epi16(w[r], x);
              if (j != 0) sum[c * R + r] = _mm256_add_epi16(sum[c * R + r], product);
              else sum[c * R + r] = bits == 6 ? _mm256_add_epi16(product, start) : product;
              pin(sum[c * R + r]);
            }
          }
        }
        sums_are_in_memory(total);
#pragma GCC unroll 2
        for (int r = 0; r < R; ++r) {
          const __m256i scale = load(wide->scales[bits == 5 ? g / 2 : g][r]);
#pragma GCC unroll 8
          for (int c = 0; c < C; ++c) total[c * R + r] = _mm256_add_epi32(total[c * R + r], _mm256_madd_epi16(sum[c * R + r], scale));
        }
        sums_are_in_memory(total);
      }
      finish<R, C>(*wide, tokens, i, total, main);
    }
  }

  /// 256 k: total times d, less the minimums times dm, times the activations' scale.
  template <int R, int C>
  QUERN_AVX2_INLINE static void finish(const Wide<R>& wide, const Tokens& tokens, std::int64_t i, const __m256i* total, float* main) {
    __m256i offset[C * R];
    if constexpr (has_mins) {
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p)
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) {
          const __m256i sums = tokens.start(c, i / 64 + p);
#pragma GCC unroll 2
          for (int r = 0; r < R; ++r) {
            const __m256i product = _mm256_madd_epi16(sums, load(wide.mins[p][r]));
            offset[c * R + r] = p == 0 ? product : _mm256_add_epi32(offset[c * R + r], product);
            pin(offset[c * R + r]);
          }
        }
    }
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const __m256 scale = tokens.scale(c, i / 256);
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) {
        float* at = main + 8 * (c * R + r);
        __m256 block = _mm256_mul_ps(_mm256_load_ps(wide.d[r]), _mm256_cvtepi32_ps(load(total + c * R + r)));
        if constexpr (has_mins) block = _mm256_fnmadd_ps(_mm256_load_ps(wide.dm[r]), _mm256_cvtepi32_ps(offset[c * R + r]), block);
        _mm256_store_ps(at, _mm256_fmadd_ps(block, scale, _mm256_load_ps(at)));
      }
    }
  }

  // Packing.

  static int min_byte(int row, int block) { return 16 * (block / 2) + 2 * row + block % 2; }

  static void pack(const std::byte* source, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* to) noexcept {
    alignas(64) Byte codes[8][256] = {};  // those of missing rows stay zeros
    for (std::int64_t i = 0; i < k / 256; ++i) {
      Byte* at = reinterpret_cast<Byte*>(to) + i * record;
      if (rows < 8) __builtin_memset(at, 0, codes_at);
      else if (!has_mins) __builtin_memset(at + d_at + 16, 0, 16);
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto* block = reinterpret_cast<const Byte*>(source + row * stride) + i * block_bytes_of<Format::dtype>;
        Byte scales[16], mins[8];
        std::uint16_t d, dm;
        Format::read(block, codes[row], scales, mins, d, dm);
        for (int g = 0; g < scale_groups; ++g) at[scales_at + 8 * g + row] = scales[g];
        if constexpr (has_mins) {
          for (int b = 0; b < 8; b += 2) __builtin_memcpy(at + mins_at + min_byte(static_cast<int>(row), b), mins + b, 2);
          __builtin_memcpy(at + d_at + 16 + 2 * row, &dm, 2);
        }
        __builtin_memcpy(at + d_at + 2 * row, &d, 2);
      }
      for (int b = 0; b < 8; ++b) pack_codes<bits>(codes[0] + 32 * b, sizeof(codes[0]), at + codes_at + b * Block::bytes);
    }
    const std::int64_t used = k / 256 * record;
    __builtin_memset(to + used, 0, static_cast<std::size_t>(panel_bytes(k) - used));
  }

  static void unpack_row(const std::byte* panel, std::int64_t row, std::int64_t k, float* out) noexcept {
    const int at_row = static_cast<int>(row);
    for (std::int64_t i = 0; i < k / 256; ++i) {
      const Byte* at = reinterpret_cast<const Byte*>(panel) + i * record;
      const float d = half_value(half_at(at + d_at + 2 * row)), dm = has_mins ? half_value(half_at(at + d_at + 16 + 2 * row)) : 0.0f;
      for (int b = 0; b < 8; ++b, out += 32) {
        Byte codes[32];
        unpack_codes<bits>(at + codes_at + b * Block::bytes, at_row, codes);
        if constexpr (has_mins) {
          const float scale = d * static_cast<float>(at[scales_at + 8 * b + row]),
                      minimum = dm * static_cast<float>(at[mins_at + min_byte(at_row, b)]);
          for (int e = 0; e < 32; ++e) out[e] = scale * static_cast<float>(codes[e]) - minimum;
        } else {
          for (int e = 0; e < 32; ++e) {
            const float scale = d * static_cast<float>(static_cast<std::int8_t>(at[scales_at + 8 * (2 * b + e / 16) + row]));
            out[e] = scale * static_cast<float>(codes[e] - 32);
          }
        }
      }
    }
  }

  static PackedLayout layout() noexcept {
    return {Format::dtype,          Isa::avx2, Format::key, activations, 8, 256, panel_bytes, pack, unpack_row, multiply<KEngine>,
            scratch_floats<KEngine>};
  }
};

/// The 12 bytes that hold eight six-bit scales and eight six-bit minimums in Q4_K and Q5_K, four at a time.
QUERN_AVX2_INLINE void read_six_bits(const Byte* s, Byte scales[8], Byte mins[8]) {
  const std::uint32_t low = word_at(s), middle = word_at(s + 4), high = word_at(s + 8);
  const std::uint32_t out[4] = {low & 0x3f3f3f3f, (high & 0x0f0f0f0f) | ((low >> 2) & 0x30303030), middle & 0x3f3f3f3f,
                                ((high >> 4) & 0x0f0f0f0f) | ((middle >> 2) & 0x30303030)};
  __builtin_memcpy(scales, out, 8);
  __builtin_memcpy(mins, out + 2, 8);
}

}  // namespace
}  // namespace quern::cpu::avx2::packed
