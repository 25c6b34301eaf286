// Products of packed panels: c[r][j] (+)= sum over k of a[k][r] * b[k][j], and the packing of panels.
//
//   order    an output is one sum from 0 in the order of k within a block of gemm_depth, and blocks are added in order: its bits depend
//            neither on the panel nor on the instruction set, portable aside
//   tile     12 rows x 32 columns under AVX-512 (24 accumulators; 2 + 12 loads for 24 multiply-adds), 4 x 16 under AVX2, 2 x 16 portable
//   traffic  the panel of b, 24 KiB, stays in the first-level cache while the panels of a pass, 48 bytes a step of k
#include "blocks.hpp"
#include "vectors.hpp"

namespace quern::cpu::QUERN_CPU_ISA {

namespace {

#if defined(QUERN_CPU_ISA_avx512)
constexpr int tile_rows = 12, tile_width = 2;
#elif defined(QUERN_CPU_ISA_avx2)
constexpr int tile_rows = 4, tile_width = 1;
#else
constexpr int tile_rows = 2, tile_width = 1;
#endif
static_assert(gemm_rows % tile_rows == 0 && gemm_columns % (16 * tile_width) == 0);

[[gnu::noinline]] void panel_tile(const float* a, const float* b, std::int64_t depth, bool first, float* c) {
  Lanes sums[tile_rows][tile_width];
  for (int r = 0; r < tile_rows; ++r)
    for (int w = 0; w < tile_width; ++w) sums[r][w] = zero();
#pragma GCC unroll 1
  for (std::int64_t k = 0; k < depth; ++k) {
    Lanes columns[tile_width];
    for (int w = 0; w < tile_width; ++w) {
      columns[w] = load(b + 16 * w);
      in_register(columns[w]);
    }
    for (int r = 0; r < tile_rows; ++r) {
      Lanes row = broadcast(a[r]);
      if constexpr (tile_width > 1) in_register(row);  // under AVX2 both halves share one register
      for (int w = 0; w < tile_width; ++w) sums[r][w] = fma(row, columns[w], sums[r][w]);
    }
    a += gemm_rows;
    b += gemm_columns;
  }
  for (int r = 0; r < tile_rows; ++r)
    for (int w = 0; w < tile_width; ++w) {
      float* to = c + r * gemm_columns + 16 * w;
      store(to, first ? sums[r][w] : add(load(to), sums[r][w]));
    }
}

/// out[k * step + lane] = rows[lane][k] for 16 lanes and `count` of 16 k.
QUERN_CPU_INLINE void store_turned(const Lanes (&rows)[16], int count, std::int64_t step, std::int64_t lanes, float* out) {
  alignas(64) float turned[16][16];
#if defined(QUERN_CPU_ISA_avx512)
  __m512 pairs[16], fours[16];
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(rows[i].v[0], rows[i + 1].v[0]);
    pairs[i + 1] = _mm512_unpackhi_ps(rows[i].v[0], rows[i + 1].v[0]);
  }
  for (int g = 0; g < 4; ++g)  // fours[4 g + c]: part j has column 4 j + c of rows 4 g .. 4 g + 3
    for (int c = 0; c < 4; ++c) {
      const __m512d low = _mm512_castps_pd(pairs[4 * g + c / 2]), high = _mm512_castps_pd(pairs[4 * g + 2 + c / 2]);
      fours[4 * g + c] = _mm512_castpd_ps(c % 2 == 0 ? _mm512_unpacklo_pd(low, high) : _mm512_unpackhi_pd(low, high));
    }
  for (int c = 0; c < 4; ++c) {
    const __m512 a = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0x44), b = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0xee),
                 d = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0x44), e = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0xee);
    _mm512_store_ps(turned[c], _mm512_shuffle_f32x4(a, d, 0x88));
    _mm512_store_ps(turned[4 + c], _mm512_shuffle_f32x4(a, d, 0xdd));
    _mm512_store_ps(turned[8 + c], _mm512_shuffle_f32x4(b, e, 0x88));
    _mm512_store_ps(turned[12 + c], _mm512_shuffle_f32x4(b, e, 0xdd));
  }
#else
  alignas(64) float from[16][16];
  for (int i = 0; i < 16; ++i) store(from[i], rows[i]);
  for (int i = 0; i < 16; i += 4)
    for (int k = 0; k < 16; k += 4) {
      __m128 a = _mm_load_ps(from[i] + k), b = _mm_load_ps(from[i + 1] + k), c = _mm_load_ps(from[i + 2] + k),
             d = _mm_load_ps(from[i + 3] + k);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      _mm_store_ps(turned[k] + i, a);
      _mm_store_ps(turned[k + 1] + i, b);
      _mm_store_ps(turned[k + 2] + i, c);
      _mm_store_ps(turned[k + 3] + i, d);
    }
#endif
  for (int k = 0; k < count; ++k) {
    if (lanes == 16) store(out + k * step, load(turned[k]));
    else __builtin_memcpy(out + k * step, turned[k], gemm_rows * sizeof(float));
  }
}

/// A panel whose source is packed along k: rows become lanes. A panel has a part of each row, too short for the processor to fetch the next one by itself.
template <typename Row>
void pack_turned(const GemmPanel& p) {
  const auto* from = reinterpret_cast<const Byte*>(p.data);
  const std::int64_t lanes = p.width < 16 ? p.width : 16;
  for (std::int64_t k = 0; k < p.depth; k += 32) {
    const int depth = static_cast<int>(p.depth - k < 32 ? p.depth - k : 32);
    for (std::int64_t lane = 0; lane < p.width; lane += 16) {
      Lanes low[16], high[16];
      for (std::int64_t i = 0; i < 16; ++i) {
        if (i >= lanes || lane + i >= p.count) {
          low[i] = high[i] = zero();
          continue;
        }
        const Byte* row = from + (lane + i) * p.stride;
        if constexpr (Row::plain) {
          const Byte* later = row + (p.first + k) * Row::bytes + p.next;
          __builtin_prefetch(later);
          __builtin_prefetch(later + 64);
        }
        if (depth == 32) Row::decode(row, (p.first + k) / 32, low[i], high[i]);
        else decode_tail<Row>(row, (p.first + k) / 32, depth, low[i], high[i]);
      }
      store_turned(low, depth < 16 ? depth : 16, p.width, lanes, p.out + k * p.width + lane);
      if (depth > 16) store_turned(high, depth - 16, p.width, lanes, p.out + (k + 16) * p.width + lane);
    }
  }
}

/// A panel whose source is packed along its lanes: `first` is a multiple of the width.
template <typename Row>
void pack_straight(const GemmPanel& p) {
  const auto* row = reinterpret_cast<const Byte*>(p.data);
  constexpr std::int64_t ahead = 8;  // rows lie too far apart for the processor to fetch them by itself
  for (std::int64_t k = 0; k < p.depth; ++k, row += p.stride) {
    if constexpr (Row::plain) {
      const Byte* later = row + (k + ahead < p.depth ? ahead * p.stride : 0) + p.first * Row::bytes;
      __builtin_prefetch(later);
      __builtin_prefetch(later + 64);
    }
    float* out = p.out + k * p.width;
    if (p.width == gemm_columns) {
      Lanes low, high;
      if (p.count >= gemm_columns) Row::decode(row, p.first / 32, low, high);
      else decode_tail<Row>(row, p.first / 32, static_cast<int>(p.count), low, high);
      store(out, low);
      store(out + 16, high);
    } else if constexpr (Row::plain) {
      if (Row::bytes == 4 && p.count >= gemm_rows) {
        __builtin_memcpy(out, row + p.first * 4, gemm_rows * sizeof(float));
      } else {
        for (std::int64_t i = 0; i < p.width; ++i) out[i] = i < p.count ? Row::one(row + (p.first + i) * Row::bytes) : 0.0f;
      }
    }
  }
}

}  // namespace

void pack_panel(const GemmPanel& p) noexcept {
  with_row(p.dtype, [&](auto row) {
    using Row = decltype(row);
    if (p.along_k) pack_turned<Row>(p);
    else pack_straight<Row>(p);
  });
}

void gemm(const GemmPart& p) noexcept {
  for (std::int64_t panel = 0; panel < p.panels; ++panel) {
    const float* a = p.a + panel * gemm_rows * p.depth;
    float* c = p.c + panel * gemm_rows * gemm_columns;
    for (int column = 0; column < gemm_columns; column += 16 * tile_width)
      for (int row = 0; row < gemm_rows; row += tile_rows)
        panel_tile(a + row, p.b + column, p.depth, p.first, c + row * gemm_columns + column);
  }
}

}  // namespace quern::cpu::QUERN_CPU_ISA
