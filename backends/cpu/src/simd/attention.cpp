// One block of positions of a tile of attention rows: scores, probabilities, running sums, and the weighted sum of values.
//
// Scores have lanes along positions. A dot product's 16 lanes of lanes.hpp are 16 sums here, one after the other, added as sum() adds them:
// the bits of a matmul, whose sums across lanes cost three times what products of a head's length do.
//
// Each row keeps the largest score so far, m, the sum of exp(s - m), and the sum of exp(s - m) v. A block raises m and scales the
// other two. A row's numbers depend on its own scores only: positions go in ascending order in lanes along v, whatever
// else is in the tile. Values of positions that a row does not see are not read for it.
#include "lanes.hpp"
#include "vectors.hpp"

namespace quern::cpu::QUERN_CPU_ISA {

namespace {

constexpr int block_lanes = attention_block / 16;

/// Makes probabilities of the row's scores, zeros where it sees nothing; returns false if it sees nothing here. What the row's output is to
/// be multiplied by goes to `factor`.
QUERN_CPU_INLINE bool row_probabilities(const AttentionBlock& p, std::int64_t row, float& factor) {
  float* s = p.scores + row * attention_block;
  const std::int64_t low = p.low[row], high = p.high[row];
  if (low >= high) return false;
  const float before = p.maximum[row];
  Lanes score[block_lanes], greatest = broadcast(before);
  for (int i = 0; i < block_lanes; ++i) score[i] = load(s + 16 * i);
  if (low != 0 || high != attention_block)
    for (int i = 0; i < block_lanes; ++i) score[i] = within(score[i], low - 16 * i, high - 16 * i, -__builtin_inff());
  for (int i = 0; i < block_lanes; ++i) greatest = max(score[i], greatest);  // a NaN is dropped: it shows in the sum
  float best = largest(greatest);
  if (best == -__builtin_inff()) {
    bool nothing = true;
    for (std::int64_t i = low; i < high; ++i) nothing = nothing && s[i] == -__builtin_inff();
    if (nothing) return false;
    best = 0.0f;  // only NaN beside -inf
  }
  if (best == __builtin_inff()) best = __FLT_MAX__;
  const Lanes by = broadcast(best);
  Lanes part = zero();
  for (int i = 0; i < block_lanes; ++i) {
    const Lanes e = exponential(sub(score[i], by));
    store(s + 16 * i, e);
    part = add(part, e);
  }
  factor = 1.0f;
  if (best > before && p.sum[row] != 0.0f) {
    alignas(64) float lanes[16];
    store(lanes, exponential(sub(broadcast(before), by)));
    factor = lanes[0];
  }
  p.maximum[row] = best;
  p.sum[row] = p.sum[row] * factor + sum(part);
  return true;
}

// Rows that pass over the values together, and lanes of each: sums that registers hold.
#if defined(QUERN_CPU_ISA_avx512)
constexpr int most_rows = 4, wide = 4;
#elif defined(QUERN_CPU_ISA_avx2)
constexpr int most_rows = 3, wide = 2;
#else
constexpr int most_rows = 2, wide = 1;
#endif

/// Rows of a tile that see the same positions, and what their outputs so far are multiplied by.
struct Waiting {
  std::int64_t rows[most_rows];
  float factors[most_rows];
  int count = 0;
  std::int64_t low = 0, high = 0;
};

/// Columns first .. first + 16 Width of the output.
template <int Rows, int Width>
void weigh_columns(const AttentionBlock& p, const Waiting& waiting, std::int64_t first) {
  const std::int64_t* rows = waiting.rows;
  Lanes sums[Rows][Width];
  for (int r = 0; r < Rows; ++r)
    for (int w = 0; w < Width; ++w) sums[r][w] = mul(load(p.output + rows[r] * p.v_size + first + 16 * w), broadcast(waiting.factors[r]));
  for (std::int64_t j = waiting.low; j < waiting.high; ++j) {
    if (Rows == 1 && p.holes && p.scores[rows[0] * attention_block + j] == 0.0f) continue;
    Lanes v[Width];
    for (int w = 0; w < Width; ++w) v[w] = load(p.v + j * p.v_size + first + 16 * w);
    for (int r = 0; r < Rows; ++r) {
      const Lanes weight = broadcast(p.scores[rows[r] * attention_block + j]);
      for (int w = 0; w < Width; ++w) sums[r][w] = fma(weight, v[w], sums[r][w]);
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int w = 0; w < Width; ++w) store(p.output + rows[r] * p.v_size + first + 16 * w, sums[r][w]);
}

template <int Rows>
void weigh(const AttentionBlock& p, const Waiting& waiting) {
  std::int64_t i = 0;
  for (; i + 16 * wide <= p.v_size; i += 16 * wide) weigh_columns<Rows, wide>(p, waiting, i);
  for (; i < p.v_size; i += 16) weigh_columns<Rows, 1>(p, waiting, i);
}

void weigh_all(const AttentionBlock& p, Waiting& waiting) {
  if (waiting.count == 1) weigh<1>(p, waiting);
  if (waiting.count == 2) weigh<2>(p, waiting);
  if constexpr (most_rows >= 3) {
    if (waiting.count == 3) weigh<3>(p, waiting);
  }
  if constexpr (most_rows >= 4) {
    if (waiting.count == 4) weigh<4>(p, waiting);
  }
  waiting.count = 0;
}

// Queries that pass over the keys together, and lanes of keys: with two of each a product needs one load.
#if defined(QUERN_CPU_ISA_avx512)
constexpr int score_rows = 2, score_lanes = 2;
#elif defined(QUERN_CPU_ISA_avx2)
constexpr int score_rows = 2, score_lanes = 1;
#else
constexpr int score_rows = 1, score_lanes = 1;
#endif

template <int Rows, int Width>
struct Scores {
  Lanes v[Rows][Width];
};

/// What lane `First` of a dot product's 16 lanes sums up, and the lanes First + Step, First + 2 Step .. added to it in the order of sum().
template <int Rows, int Width, int First, int Step>
QUERN_CPU_INLINE Scores<Rows, Width> partial_scores(const float* keys, std::int64_t depth, const float* const* queries) {
  Scores<Rows, Width> s;
  if constexpr (Step == 16) {
    for (int r = 0; r < Rows; ++r)
      for (int w = 0; w < Width; ++w) s.v[r][w] = zero();
#pragma GCC unroll 1
    for (std::int64_t k = First; k < depth; k += 16) {
      Lanes key[Width];
      for (int w = 0; w < Width; ++w) {
        key[w] = load(keys + k * attention_block + 16 * w);
        in_register(key[w]);
      }
      for (int r = 0; r < Rows; ++r) {
        const Lanes query = broadcast(queries[r][k]);
        for (int w = 0; w < Width; ++w) s.v[r][w] = fma(key[w], query, s.v[r][w]);
      }
    }
  } else {
    s = partial_scores<Rows, Width, First, 2 * Step>(keys, depth, queries);
    const Scores<Rows, Width> other = partial_scores<Rows, Width, First + Step, 2 * Step>(keys, depth, queries);
    for (int r = 0; r < Rows; ++r)
      for (int w = 0; w < Width; ++w) s.v[r][w] = add(s.v[r][w], other.v[r][w]);
  }
  return s;
}

/// Positions j .. j + 16 Width.
template <int Rows, int Width>
QUERN_CPU_INLINE void score_columns(const AttentionScores& p, const float* const* queries, std::int64_t row, std::int64_t j) {
  const Scores<Rows, Width> s = partial_scores<Rows, Width, 0, 1>(p.turned_keys + j, p.depth, queries);
  for (int r = 0; r < Rows; ++r)
    for (int w = 0; w < Width; ++w) store(p.scores + (row + r) * attention_block + j + 16 * w, mul(s.v[r][w], broadcast(p.scale)));
}

template <int Rows>
[[gnu::noinline]] void score_tile(const AttentionScores& p, std::int64_t row) {
  const float* queries[Rows];
  for (int r = 0; r < Rows; ++r) queries[r] = p.queries + (row + r) * p.depth;
  std::int64_t j = p.first / 16 * 16;
#pragma GCC unroll 1
  for (; j + 16 * (score_lanes - 1) < p.end; j += 16 * score_lanes) score_columns<Rows, score_lanes>(p, queries, row, j);
  if (score_lanes > 1 && j < p.end) score_columns<Rows, 1>(p, queries, row, j);
}

}  // namespace

void turn_keys(const float* keys, std::int64_t first, std::int64_t end, std::int64_t depth, float* turned) noexcept {
  for (std::int64_t j = first / 4 * 4; j < end; j += 4)
    for (std::int64_t k = 0; k < depth; k += 4) {
      const float* from = keys + j * depth + k;
      __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + depth), c = _mm_loadu_ps(from + 2 * depth), d = _mm_loadu_ps(from + 3 * depth);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      float* to = turned + k * attention_block + j;
      _mm_storeu_ps(to, a);
      _mm_storeu_ps(to + attention_block, b);
      _mm_storeu_ps(to + 2 * attention_block, c);
      _mm_storeu_ps(to + 3 * attention_block, d);
    }
}

void attention_scores(const AttentionScores& p) noexcept {
  std::int64_t row = 0;
  for (; row + score_rows <= p.rows; row += score_rows) score_tile<score_rows>(p, row);
  for (; row < p.rows; ++row) score_tile<1>(p, row);
}

void attention(const AttentionBlock& p) noexcept {
  Waiting waiting;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    float factor;
    if (!row_probabilities(p, row, factor)) continue;
    if (waiting.count == most_rows || waiting.low != p.low[row] || waiting.high != p.high[row] || p.holes) weigh_all(p, waiting);
    waiting.low = p.low[row];
    waiting.high = p.high[row];
    waiting.rows[waiting.count] = row;
    waiting.factors[waiting.count++] = factor;
  }
  weigh_all(p, waiting);
}

}  // namespace quern::cpu::QUERN_CPU_ISA
