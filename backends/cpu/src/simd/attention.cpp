// One block of positions of a tile of attention rows: probabilities, running sums, and the weighted sum of values.
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
  float best = p.maximum[row];
  for (std::int64_t i = low; i < low + n; ++i) best = s[i] > best ? s[i] : best;  // a NaN is not larger: it shows in the sum
  if (best == -__builtin_inff()) {
    bool nothing = true;
    for (std::int64_t i = low; i < low + n; ++i) nothing = nothing && s[i] == -__builtin_inff();
    if (nothing) return false;
    best = 0.0f;  // only NaN beside -inf
  }
  alignas(64) float from_low[attention_block];  // one order of summation for every tile: lanes count from the block's start
  for (std::int64_t i = 0; i < attention_block; ++i) from_low[i] = i >= low && i < low + n ? s[i] : -__builtin_inff();
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

template <int Rows>
void weigh(const AttentionBlock& p, const std::int64_t* rows, std::int64_t low, std::int64_t high) {
  for (std::int64_t i = 0; i < p.v_size; i += 32) {
    const bool two = i + 32 <= p.v_size;
    Lanes sums[Rows][2];
    for (int r = 0; r < Rows; ++r) {
      sums[r][0] = load(p.output + rows[r] * p.v_size + i);
      sums[r][1] = two ? load(p.output + rows[r] * p.v_size + i + 16) : zero();
    }
    for (std::int64_t j = low; j < high; ++j) {
      if (Rows == 1 && p.holes && p.scores[rows[0] * attention_block + j] == 0.0f) continue;
      const Lanes v0 = load(p.v + j * p.v_size + i), v1 = two ? load(p.v + j * p.v_size + i + 16) : zero();
      for (int r = 0; r < Rows; ++r) {
        const Lanes weight = broadcast(p.scores[rows[r] * attention_block + j]);
        sums[r][0] = fma(weight, v0, sums[r][0]);
        sums[r][1] = fma(weight, v1, sums[r][1]);
      }
    }
    for (int r = 0; r < Rows; ++r) {
      store(p.output + rows[r] * p.v_size + i, sums[r][0]);
      if (two) store(p.output + rows[r] * p.v_size + i + 16, sums[r][1]);
    }
  }
}

}  // namespace

void attention(const AttentionBlock& p) noexcept {
  std::int64_t waiting[4];
  int count = 0;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    if (!row_probabilities(p, row)) continue;
    const bool whole = p.low[row] == 0 && p.high[row] == p.positions && !p.holes;
    if (!whole) {
      weigh<1>(p, &row, p.low[row], p.high[row]);
      continue;
    }
    waiting[count++] = row;
    if (count == 4) {
      weigh<4>(p, waiting, 0, p.positions);
      count = 0;
    }
  }
  for (int i = 0; i < count; ++i) weigh<1>(p, waiting + i, 0, p.positions);
}

}  // namespace quern::cpu::QUERN_CPU_ISA
