// The largest and the log of the sum of exp of a row.
#pragma once

#include "map_rows.hpp"

#include <cmath>
#include <limits>

namespace quern::cpu {

/// The largest of a row; NaN wins; -inf for a row without elements.
inline float largest(const TensorView& x, std::int64_t row) noexcept {
  float buffer[map_part], best = -std::numeric_limits<float>::infinity();
  const std::int64_t n = row_length(x);
  for (std::int64_t first = 0; first < n; first += map_part) {
    const std::int64_t count = std::min(map_part, n - first);
    load_row(x, row, first, count, buffer);
    for (std::int64_t i = 0; i < count; ++i) {
      if (std::isnan(buffer[i])) return buffer[i];
      best = buffer[i] > best ? buffer[i] : best;
    }
  }
  return best;
}

/// log(sum(exp(x - shift))) + shift with the largest x as shift; f32 sums of 256 in 16 lanes, added up in f64.
inline double log_sum_exp(const TensorView& x, std::int64_t row) noexcept {
  const float best = largest(x, row);
  if (std::isnan(best) || std::isinf(best)) return static_cast<double>(best);
  float buffer[map_part];
  double sum = 0.0;
  const std::int64_t n = row_length(x);
  for (std::int64_t first = 0; first < n; first += map_part) {
    const std::int64_t count = std::min(map_part, n - first);
    load_row(x, row, first, count, buffer);
    sum += static_cast<double>(portable::vectors.exp_sum(buffer, best, count, buffer));
  }
  return static_cast<double>(best) + std::log(sum);
}

}  // namespace quern::cpu
