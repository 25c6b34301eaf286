// y[t][r] = a[t] . w[r] for weights of any format, f32 sums.
//
//   order    an output has 16 lanes; lane l adds products k = l, l + 16, ... in that order, then lanes.hpp's sum(). Every path
//            below keeps it, so an output's bits do not depend on tokens, rows, threads or path
//   few      up to 3 tokens: weights are decoded in registers, 4 rows at a time (AVX2: 2 for one
//            token, else 1; of the K formats 1, for up to 2 tokens; portable: 1)
//   many     8 rows x up to 576 of k are decoded to an 18 KiB buffer in the first-level cache and used for up to 240 tokens in
//            tiles of 8 rows x 3 tokens (24 AVX-512 accumulators; 2 x 3 under AVX2, 2 x 2 portable); between
//            parts of k the 16 lanes of each output wait in memory
//   traffic  a tile step loads 8 + 3 vectors for 24 multiply-adds
#include "blocks.hpp"
#include "vectors.hpp"

namespace quern::cpu::QUERN_CPU_ISA {

const extern Vectors vectors;

namespace {

#if defined(QUERN_CPU_ISA_avx512)
constexpr int tile_rows = 8, tile_tokens = 3, few_rows = 4, few_rows_of_several = 4, narrow_rows = 2, narrow_from = 3;
#elif defined(QUERN_CPU_ISA_avx2)
constexpr int tile_rows = 2, tile_tokens = 3, few_rows = 2, few_rows_of_several = 1, narrow_rows = 1, narrow_from = 1;
#else
constexpr int tile_rows = 1, tile_tokens = 2, few_rows = 1, few_rows_of_several = 1, narrow_rows = 1, narrow_from = 1;
#endif
constexpr std::int64_t few_tokens = 3;

/// Formats whose decoding needs many registers itself: from `narrow_from` tokens on only `narrow_rows` rows fit beside it, and of one row
/// no more than two tokens.
template <typename Row>
constexpr bool decodes_narrowly = false;
template <>
constexpr bool decodes_narrowly<RowQ5K> = true;
#if !defined(QUERN_CPU_ISA_avx512)
template <>
constexpr bool decodes_narrowly<RowQ4K> = true;
template <>
constexpr bool decodes_narrowly<RowQ6K> = true;
#endif

/// Few tokens: rows decoded on the fly.
template <typename Row, int Rows, int Tokens>
[[gnu::noinline]] void few(const MatmulPart& p, const Byte* w, const float* a, float* y) {
  Lanes sums[Rows][Tokens];
  QUERN_CPU_UNROLL
  for (int r = 0; r < Rows; ++r) QUERN_CPU_UNROLL
  for (int t = 0; t < Tokens; ++t) sums[r][t] = zero();
  const std::int64_t blocks = p.k / 32;
  const int tail = static_cast<int>(p.k % 32);
  const auto add = [&](int r, std::int64_t b, Lanes low, Lanes high) __attribute__((always_inline)) {
    QUERN_CPU_UNROLL
    for (int t = 0; t < Tokens; ++t) {
      sums[r][t] = fma(low, load(a + t * p.a_stride + b * 32), sums[r][t]);
      sums[r][t] = fma(high, load(a + t * p.a_stride + b * 32 + 16), sums[r][t]);
      in_register(sums[r][t]);
    }
  };
#pragma GCC unroll 1
  for (std::int64_t b = 0; b < blocks; ++b) {
    QUERN_CPU_UNROLL
    for (int r = 0; r < Rows; ++r) {
      Lanes low, high;
      Row::decode(w + r * p.w_stride, b, low, high);
      add(r, b, low, high);
    }
  }
  if (Row::plain && tail != 0) {
    QUERN_CPU_UNROLL
    for (int r = 0; r < Rows; ++r) {
      Lanes low, high;
      decode_tail<Row>(w + r * p.w_stride, blocks, tail, low, high);
      add(r, blocks, low, high);
    }
  }
  QUERN_CPU_UNROLL
  for (int r = 0; r < Rows; ++r) QUERN_CPU_UNROLL
  for (int t = 0; t < Tokens; ++t) y[t * p.y_stride + r] = sum(sums[r][t]);
}

template <typename Row, int Tokens>
void few_all(const MatmulPart& p, std::int64_t first_token) {
  const auto* w = reinterpret_cast<const Byte*>(p.w);
  const float* a = p.a + first_token * p.a_stride;
  float* y = p.y + first_token * p.y_stride;
  constexpr int usual = Tokens == 1 ? few_rows : few_rows_of_several;
  constexpr int together = decodes_narrowly<Row> && Tokens >= narrow_from ? narrow_rows : usual;
  std::int64_t r = 0;
  for (; r + together <= p.rows; r += together) few<Row, together, Tokens>(p, w + r * p.w_stride, a, y + r);
  for (; r < p.rows; ++r) few<Row, 1, Tokens>(p, w + r * p.w_stride, a, y + r);
}

/// What a tile of decoded rows is multiplied with, and where its sums go.
struct Tile {
  const float* w;  // [rows][w_stride]
  std::int64_t w_stride;
  const float* a;
  std::int64_t a_stride;
  std::int64_t depth;  // a multiple of 32
  float* kept;         // [rows][tokens][16], between parts of k
  bool first, last;
  float* y;
  std::int64_t y_stride;
};

template <int Rows, int Tokens>
[[gnu::noinline]] void tile(const Tile& p) {
  Lanes sums[Tokens][Rows];
  if (p.first) {
    for (int t = 0; t < Tokens; ++t)
      for (int r = 0; r < Rows; ++r) sums[t][r] = zero();
  } else {
    for (int t = 0; t < Tokens; ++t)
      for (int r = 0; r < Rows; ++r) sums[t][r] = load(p.kept + (t * matmul_row_block + r) * 16);
  }
  for (std::int64_t k = 0; k < p.depth; k += 16) {
    Lanes a[Tokens];
    for (int t = 0; t < Tokens; ++t) a[t] = load(p.a + t * p.a_stride + k);
    for (int r = 0; r < Rows; ++r) {
      Lanes w = load(p.w + r * p.w_stride + k);
      in_register(w);
      for (int t = 0; t < Tokens; ++t) sums[t][r] = fma(w, a[t], sums[t][r]);
    }
  }
  if (!p.last) {
    for (int t = 0; t < Tokens; ++t)
      for (int r = 0; r < Rows; ++r) store(p.kept + (t * matmul_row_block + r) * 16, sums[t][r]);
    return;
  }
  for (int t = 0; t < Tokens; ++t) {
    if constexpr (Rows == 8) sum_eight(sums[t], p.y + t * p.y_stride);
    else
      for (int r = 0; r < Rows; ++r) p.y[t * p.y_stride + r] = sum(sums[t][r]);
  }
}

template <int Rows>
void tile_tokens_of(const Tile& p, std::int64_t tokens) {
  if (tokens == 1) return tile<Rows, 1>(p);
  if constexpr (tile_tokens >= 3) {
    if (tokens == 3) return tile<Rows, 3>(p);
  }
  tile<Rows, 2>(p);
}

#if defined(QUERN_CPU_ISA_avx2)
/// sum(a) from the first four lanes' partial sums and sum(b) from the last four's.
QUERN_CPU_INLINE __m256 halves_of_sums(Lanes a, Lanes b) {
  const __m256 x = _mm256_add_ps(a.v[0], a.v[1]), y = _mm256_add_ps(b.v[0], b.v[1]);
  return _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
}

/// All rows with up to three tokens, two rows at a time. Six sums become numbers together, in the order of sum(): for products as short
/// as a head's, that was half of the time one by one.
template <int Tokens>
[[gnu::noinline]] void row_pairs(const Tile& p, std::int64_t rows) {
  std::int64_t r = 0;
#pragma GCC unroll 1
  for (; r + 2 <= rows; r += 2) {
    Lanes sums[Tokens][2];
    for (int t = 0; t < Tokens; ++t) sums[t][0] = sums[t][1] = zero();
    const float* w = p.w + r * p.w_stride;
#pragma GCC unroll 1
    for (std::int64_t k = 0; k < p.depth; k += 16) {
      Lanes a[Tokens];
      for (int t = 0; t < Tokens; ++t) a[t] = load(p.a + t * p.a_stride + k);
      for (int n = 0; n < 2; ++n) {
        Lanes row = load(w + n * p.w_stride + k);
        in_register(row);
        for (int t = 0; t < Tokens; ++t) sums[t][n] = fma(row, a[t], sums[t][n]);
      }
    }
    __m256 quarters[3];
    for (int t = 0; t < 3; ++t) quarters[t] = halves_of_sums(sums[t < Tokens ? t : 0][0], sums[t < Tokens ? t : 0][1]);
    const __m256 low = _mm256_add_ps(_mm256_shuffle_ps(quarters[0], quarters[1], 0x44), _mm256_shuffle_ps(quarters[0], quarters[1], 0xee));
    const __m256 high = _mm256_add_ps(_mm256_shuffle_ps(quarters[2], quarters[2], 0x44), _mm256_shuffle_ps(quarters[2], quarters[2], 0xee));
    const __m256 all =
        _mm256_add_ps(_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xdd));  // row 0 of each token, row 1 of each
    const __m128 first = _mm256_castps256_ps128(all), second = _mm256_extractf128_ps(all, 1), pairs = _mm_unpacklo_ps(first, second);
    _mm_storel_pi(reinterpret_cast<__m64*>(p.y + r), pairs);
    if (Tokens > 1) _mm_storeh_pi(reinterpret_cast<__m64*>(p.y + p.y_stride + r), pairs);
    if (Tokens > 2) _mm_storel_pi(reinterpret_cast<__m64*>(p.y + 2 * p.y_stride + r), _mm_unpackhi_ps(first, second));
  }
  if (r < rows) {
    Tile last = p;
    last.w += r * p.w_stride;
    last.y += r;
    tile_tokens_of<1>(last, Tokens);
  }
}
#endif

/// f32 rows of whole lanes: tiles straight from the weights.
void direct(const MatmulPart& p) {
  const auto* w = reinterpret_cast<const float*>(p.w);
  const std::int64_t w_stride = p.w_stride / 4;
  for (std::int64_t t = 0; t < p.tokens; t += tile_tokens) {
    const std::int64_t tokens = p.tokens - t < tile_tokens ? p.tokens - t : tile_tokens;
    const auto at = [&](std::int64_t r) {
      return Tile{w + r * w_stride,         w_stride,  p.a + t * p.a_stride, p.a_stride, p.k, nullptr, true, true,
                  p.y + t * p.y_stride + r, p.y_stride};
    };
#if defined(QUERN_CPU_ISA_avx2)
    if (tokens == 1) row_pairs<1>(at(0), p.rows);
    else if (tokens == 2) row_pairs<2>(at(0), p.rows);
    else row_pairs<3>(at(0), p.rows);
#else
    std::int64_t r = 0;
    for (; r + tile_rows <= p.rows; r += tile_rows) tile_tokens_of<tile_rows>(at(r), tokens);
    for (; r < p.rows; ++r) tile_tokens_of<1>(at(r), tokens);
#endif
  }
}

/// Elements first .. first + depth of a row as f32; what lies behind k is zero.
template <typename Row>
void decode_part(const Byte* row, std::int64_t first, std::int64_t depth, std::int64_t k, float* out) {
  for (std::int64_t i = 0; i < depth; i += 32) {
    Lanes low, high;
    if (first + i + 32 <= k) Row::decode(row, (first + i) / 32, low, high);
    else decode_tail<Row>(row, (first + i) / 32, static_cast<int>(k - first - i), low, high);
    store(out + i, low);
    store(out + i + 16, high);
  }
}

/// One block of at most 8 rows, for tokens [begin, end).
template <typename Row>
void many_rows(const MatmulPart& p, std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end) {
  const auto* w = reinterpret_cast<const Byte*>(p.w) + row * p.w_stride;
  float *decoded = p.buffer, *kept = p.buffer + matmul_row_block * matmul_max_depth;
  const std::int64_t padded = (p.k + 31) / 32 * 32;
  const std::int64_t parts = (padded + matmul_max_depth - 1) / matmul_max_depth;
  const std::int64_t depth = ((padded + parts - 1) / parts + 31) / 32 * 32;
  for (std::int64_t k = 0; k < padded; k += depth) {
    const std::int64_t d = padded - k < depth ? padded - k : depth;
    for (std::int64_t r = 0; r < rows; ++r) decode_part<Row>(w + r * p.w_stride, k, d, p.k, decoded + r * depth);
    for (std::int64_t t = begin; t < end; t += tile_tokens) {
      const std::int64_t tokens = end - t < tile_tokens ? end - t : tile_tokens;
      std::int64_t r = 0;
      const auto at = [&](std::int64_t from) {
        return Tile{decoded + from * depth,
                    depth,
                    p.a + t * p.a_stride + k,
                    p.a_stride,
                    d,
                    kept + ((t - begin) * matmul_row_block + from) * 16,
                    k == 0,
                    k + d == padded,
                    p.y + t * p.y_stride + row + from,
                    p.y_stride};
      };
      for (; r + tile_rows <= rows; r += tile_rows) tile_tokens_of<tile_rows>(at(r), tokens);
      for (; r < rows; ++r) tile_tokens_of<1>(at(r), tokens);
    }
  }
}

template <typename Row>
void many_all(const MatmulPart& p) {
  // Tokens that pass together: their activations should stay in half a megabyte of second-level cache.
  std::int64_t together = p.k == 0 ? matmul_max_tokens : 131072 / p.k;
  together = together < 24 ? 24 : together > matmul_max_tokens ? matmul_max_tokens : together;
  together = together / tile_tokens * tile_tokens;
  for (std::int64_t begin = 0; begin < p.tokens; begin += together) {
    const std::int64_t end = p.tokens - begin < together ? p.tokens : begin + together;
    for (std::int64_t r = 0; r < p.rows; r += matmul_row_block)
      many_rows<Row>(p, r, p.rows - r < matmul_row_block ? p.rows - r : matmul_row_block, begin, end);
  }
}

}  // namespace

void matmul(const MatmulPart& p) noexcept {
  if (p.k == 0) {
    for (std::int64_t t = 0; t < p.tokens; ++t)
      for (std::int64_t r = 0; r < p.rows; ++r) p.y[t * p.y_stride + r] = 0.0f;
    return;
  }
  // Small f32 products, scores of attention_dense above all: nothing to decode, and rows that fit a cache for all tokens.
  if (p.dtype == QUERN_F32 && p.k % 32 == 0 && p.w_stride % 4 == 0 && (p.tokens <= tile_tokens || p.k <= 256)) return direct(p);
  with_row(p.dtype, [&](auto row) {
    using Row = decltype(row);
    if (p.tokens == 1) few_all<Row, 1>(p, 0);
    else if (p.tokens == 2) few_all<Row, 2>(p, 0);
    else if constexpr (decodes_narrowly<Row> && narrow_rows == 1) many_all<Row>(p);
    else if (p.tokens == few_tokens) few_all<Row, 3>(p, 0);
    else many_all<Row>(p);
  });
}

}  // namespace quern::cpu::QUERN_CPU_ISA
