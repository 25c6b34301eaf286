// Gradients of rms_norm and layer_norm.
//
// With g = dy * weight, r = 1 / rms and c = x (x - mean for layer_norm): dx = r g - c r^3 mean(g c), less r mean(g) for layer_norm.
// dweight and dbias are sums over rows: a thread takes 128 columns and goes through all rows in order, in f32 sums of 64 rows that add
// up in f64, so threads do not change the result. Outputs may be inputs: nothing is written before everything that reads it has run.
#pragma once

#include "map_rows.hpp"

#include <cmath>

namespace quern::cpu {

constexpr std::int64_t norm_columns = 128;
constexpr std::int64_t norm_rows = 64;

inline Verdict accepts_norm_backward(const Call& call) { return check_row_predicate(call, "x"); }

/// Scratch: for each row the reciprocal root and the mean; for each column the factor and two sums; two rows a thread.
struct NormSums {
  double *means, *weight_sums, *bias_sums;
  float *inverses, *factors, *rows;
};
inline std::uint64_t scratch_norm_backward(const Call& call) noexcept {
  const std::int64_t rows = call.input(0).rows(), n = call.input(0).last();
  return static_cast<std::uint64_t>((rows + 2 * n) * 8 + (rows + n + 2 * n * call.thread_count) * 4);
}
inline NormSums norm_sums(const Call& call, std::byte* base) noexcept {
  const std::int64_t rows = call.input(0).rows(), n = call.input(0).last();
  auto* wide = reinterpret_cast<double*>(base);
  auto* narrow = reinterpret_cast<float*>(wide + rows + 2 * n);
  return {wide, wide + rows, wide + rows + n, narrow, narrow + rows, narrow + rows + n};
}

/// x - mean, or x itself; in place where nothing changes.
inline const float* centred_row(const Vectors& vectors, const Tensor& x, std::int64_t row, const double* mean, float* buffer) noexcept {
  const float* from = row_floats(vectors, x, row, buffer);
  if (mean == nullptr) return from;
  for (std::int64_t i = 0; i < x.last(); ++i) buffer[i] = static_cast<float>(static_cast<double>(from[i]) - *mean);
  return buffer;
}

/// dweight and dbias of columns [first, first + count), not yet added to what is there.
template <bool layer>
void sum_columns(const Call& call, const NormSums& m, std::int64_t first, std::int64_t count, const Vectors& vectors,
                 const Context& context) noexcept {
  const Tensor &x = call.input(0), &dy = call.input(2);
  const std::int64_t rows = x.rows();
  float weight_part[norm_columns], bias_part[norm_columns], x_buffer[norm_columns], dy_buffer[norm_columns];
  std::fill_n(m.weight_sums + first, count, 0.0);
  std::fill_n(m.bias_sums + first, count, 0.0);
  for (std::int64_t block = 0; block < rows && !context.cancelled(); block += norm_rows) {
    std::fill_n(weight_part, count, 0.0f);
    std::fill_n(bias_part, count, 0.0f);
    for (std::int64_t row = block; row < std::min(rows, block + norm_rows); ++row) {
      if (!leading_row_live(call, row)) continue;
      const float *at = part_floats(vectors, x, row, first, count, x_buffer), *d = part_floats(vectors, dy, row, first, count, dy_buffer);
      const float inverse = m.inverses[row];
      if constexpr (layer) {
        const double mean = m.means[row];
        for (std::int64_t i = 0; i < count; ++i) weight_part[i] += d[i] * (static_cast<float>(static_cast<double>(at[i]) - mean) * inverse);
        for (std::int64_t i = 0; i < count; ++i) bias_part[i] += d[i];
      } else {
        for (std::int64_t i = 0; i < count; ++i) weight_part[i] += d[i] * (at[i] * inverse);
      }
    }
    for (std::int64_t i = 0; i < count; ++i) m.weight_sums[first + i] += static_cast<double>(weight_part[i]);
    for (std::int64_t i = 0; i < count; ++i) m.bias_sums[first + i] += static_cast<double>(bias_part[i]);
  }
}

inline void store_sums(const Tensor& to, const double* sums, bool accumulate) noexcept {
  if (!to.present()) return;
  float before[map_part], values[map_part];
  for (std::int64_t first = 0; first < to.last(); first += map_part) {
    const std::int64_t count = std::min(map_part, to.last() - first);
    if (accumulate) load_row(to, 0, first, count, before);
    for (std::int64_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(accumulate ? static_cast<double>(before[i]) + sums[first + i] : sums[first + i]);
    store_row(to, 0, first, count, values);
  }
}

template <Isa isa, bool layer>
void run_norm_backward(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &x = call.input(0), &weight = call.input(1), &dy = call.input(2), &dx = call.output(0);
  const std::int64_t n = x.last(), rows = x.rows();
  const auto epsilon = static_cast<float>(call.real(QUERN_KEY_EPSILON));
  const auto length = static_cast<float>(n);
  const NormSums m = norm_sums(call, context.scratch());
  std::fill_n(m.factors, n, 1.0f);
  if (weight.present()) {
    load_row(weight, 0, 0, n, m.factors);
    if constexpr (!layer)
      for (std::int64_t i = 0; i < n; ++i) m.factors[i] += static_cast<float>(call.real(QUERN_KEY_WEIGHT_OFFSET));
  }
  const auto each_row = [&](const auto& body) {
    context.parallel(rows, rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
      float* own = m.rows + thread * 2 * n;
      for (std::int64_t row = begin; row < end; ++row)
        if (leading_row_live(call, row)) body(row, own, own + n);
    });
  };
  each_row([&](std::int64_t row, float* own, float*) {
    if constexpr (layer) m.means[row] = row_sum(x, row, 0, n, [](float v) { return v; }) / static_cast<double>(n);
    const float* c = centred_row(vectors, x, row, layer ? m.means + row : nullptr, own);
    m.inverses[row] = 1.0f / std::sqrt(vectors.dot(c, c, n) / length + epsilon);
  });
  if (call.output(1).present() || call.output(2).present())
    context.parallel((n + norm_columns - 1) / norm_columns, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
      for (std::int64_t part = begin; part < end; ++part)
        sum_columns<layer>(call, m, part * norm_columns, std::min(norm_columns, n - part * norm_columns), vectors, context);
    });
  each_row([&](std::int64_t row, float* own, float* second) {
    const float* c = centred_row(vectors, x, row, layer ? m.means + row : nullptr, own);
    vectors.mul(row_floats(vectors, dy, row, second), m.factors, n, second);
    const float inverse = m.inverses[row], slope = vectors.dot(second, c, n) / length * inverse * inverse * inverse;
    const float shift = layer ? vectors.sum(second, n) / length * inverse : 0.0f;
    float* to = output_row(dx, row, own);
    vectors.combine(second, inverse, c, -slope, n, to);
    if constexpr (layer)
      for (std::int64_t i = 0; i < n; ++i) to[i] -= shift;
    finish_row(vectors, dx, row, to, own);
  });
  if (context.cancelled()) return;  // some sums are missing
  const bool accumulate = call.integer(QUERN_KEY_ACCUMULATE) != 0;
  store_sums(call.output(1), m.weight_sums, accumulate);
  store_sums(call.output(2), m.bias_sums, accumulate);
}

}  // namespace quern::cpu
