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

float exp_sum(const float* x, float shift, std::int64_t n, float* y) noexcept;  // rows.cpp

namespace {

/// Makes probabilities of the row's scores; returns false if it sees nothing here.
bool row_probabilities(const AttentionBlock& p, std::int64_t row) {
  float* s = p.scores + row * attention_block;
  const std::int64_t low = p.low[row], n = p.high[row] - low;
  if (n <= 0) return false;
  alignas(64) float from_low[attention_block];  // one order of summation for every tile: lanes count from the block's start
  for (std::int64_t i = 0; i < attention_block; i += 16) store(from_low + i, broadcast(-__builtin_inff()));
  __builtin_memcpy(from_low + low, s + low, static_cast<std::size_t>(n) * 4);
  Lanes greatest = broadcast(p.maximum[row]);
  for (std::int64_t i = 0; i < attention_block; i += 16) greatest = max(load(from_low + i), greatest);  // a NaN is dropped: it shows in the sum
  float best = largest(greatest);
  if (best == -__builtin_inff()) {
    bool nothing = true;
    for (std::int64_t i = low; i < low + n; ++i) nothing = nothing && s[i] == -__builtin_inff();
    if (nothing) return false;
    best = 0.0f;  // only NaN beside -inf
  }
  if (best == __builtin_inff()) best = __FLT_MAX__;
  const float part = exp_sum(from_low, best, attention_block, s);
  if (best > p.maximum[row] && p.sum[row] != 0.0f) {
    const float before[1] = {p.maximum[row]};
    float factor[1];
    exp_sum(before, best, 1, factor);
    p.sum[row] *= factor[0];
    const Lanes f = broadcast(factor[0]);
    for (std::int64_t i = 0; i < p.v_size; i += 16) store(p.output + row * p.v_size + i, mul(load(p.output + row * p.v_size + i), f));
  }
  p.maximum[row] = best;
  p.sum[row] += part;
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

/// Columns first .. first + 16 Width of the output.
template <int Rows, int Width>
void weigh_columns(const AttentionBlock& p, const std::int64_t* rows, std::int64_t low, std::int64_t high, std::int64_t first) {
  Lanes sums[Rows][Width];
  for (int r = 0; r < Rows; ++r)
    for (int w = 0; w < Width; ++w) sums[r][w] = load(p.output + rows[r] * p.v_size + first + 16 * w);
  for (std::int64_t j = low; j < high; ++j) {
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
void weigh(const AttentionBlock& p, const std::int64_t* rows, std::int64_t low, std::int64_t high) {
  std::int64_t i = 0;
  for (; i + 16 * wide <= p.v_size; i += 16 * wide) weigh_columns<Rows, wide>(p, rows, low, high, i);
  for (; i < p.v_size; i += 16) weigh_columns<Rows, 1>(p, rows, low, high, i);
}

// Queries that pass over the keys together.
#if defined(QUERN_CPU_ISA_avx512)
constexpr int score_rows = 4;
#elif defined(QUERN_CPU_ISA_avx2)
constexpr int score_rows = 2;
#else
constexpr int score_rows = 1;
#endif

template <int Rows>
struct Scores {
  Lanes v[Rows];
};

/// What lane `First` of a dot product's 16 lanes sums up, and the lanes First + Step, First + 2 Step .. added to it in the order of sum().
template <int Rows, int First, int Step>
QUERN_CPU_INLINE Scores<Rows> partial_scores(const float* keys, std::int64_t depth, const float* const* queries) {
  Scores<Rows> s;
  if constexpr (Step == 16) {
    for (int r = 0; r < Rows; ++r) s.v[r] = zero();
#pragma GCC unroll 1
    for (std::int64_t k = First; k < depth; k += 16) {
      Lanes key = load(keys + k * attention_block);
      in_register(key);
      for (int r = 0; r < Rows; ++r) s.v[r] = fma(key, broadcast(queries[r][k]), s.v[r]);
    }
  } else {
    s = partial_scores<Rows, First, 2 * Step>(keys, depth, queries);
    const Scores<Rows> other = partial_scores<Rows, First + Step, 2 * Step>(keys, depth, queries);
    for (int r = 0; r < Rows; ++r) s.v[r] = add(s.v[r], other.v[r]);
  }
  return s;
}

template <int Rows>
[[gnu::noinline]] void score_tile(const AttentionScores& p, std::int64_t row) {
  const float* queries[Rows];
  for (int r = 0; r < Rows; ++r) queries[r] = p.queries + (row + r) * p.depth;
#pragma GCC unroll 1
  for (std::int64_t j = p.first / 16 * 16; j < p.end; j += 16) {
    const Scores<Rows> s = partial_scores<Rows, 0, 1>(p.turned_keys + j, p.depth, queries);
    for (int r = 0; r < Rows; ++r) store(p.scores + (row + r) * attention_block + j, s.v[r]);
  }
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
  std::int64_t waiting[most_rows];
  int count = 0;
  const auto flush = [&] {
    if (count == 1) weigh<1>(p, waiting, 0, p.positions);
    if (count == 2) weigh<2>(p, waiting, 0, p.positions);
    if constexpr (most_rows >= 3) {
      if (count == 3) weigh<3>(p, waiting, 0, p.positions);
    }
    if constexpr (most_rows >= 4) {
      if (count == 4) weigh<4>(p, waiting, 0, p.positions);
    }
    count = 0;
  };
  for (std::int64_t row = 0; row < p.rows; ++row) {
    if (!row_probabilities(p, row)) continue;
    const bool whole = p.low[row] == 0 && p.high[row] == p.positions && !p.holes;
    if (!whole) {
      weigh<1>(p, &row, p.low[row], p.high[row]);
      continue;
    }
    waiting[count++] = row;
    if (count == most_rows) flush();
  }
  flush();
}

}  // namespace quern::cpu::QUERN_CPU_ISA
