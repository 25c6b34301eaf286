// The largest and the log of the sum of exp of a row.
#pragma once

#include "map_rows.hpp"

#include <cmath>
#include <limits>

namespace quern::cpu {

/// The largest of a row; NaN wins; -inf for a row without elements.
inline float largest(const Tensor& x, std::int64_t row) noexcept {
  float buffer[map_part], best = -std::numeric_limits<float>::infinity();
  const std::int64_t n = x.last();
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
inline double log_sum_exp(const Tensor& x, std::int64_t row, const Vectors& vectors) noexcept {
  float buffer[map_part], best = -std::numeric_limits<float>::infinity();
  const std::int64_t n = x.last();
  const auto each_part = [&](const auto& body) {
    for (std::int64_t first = 0; first < n; first += map_part) {
      const std::int64_t count = std::min(map_part, n - first);
      body(part_floats(vectors, x, row, first, count, buffer), count);
    }
  };
  each_part([&](const float* part, std::int64_t count) { best = std::max(best, vectors.maximum(part, count)); });
  if (std::isinf(best)) return static_cast<double>(largest(x, row));  // a NaN, which wins, is dropped above and shows in a sum
  double sum = 0.0;
  each_part([&](const float* part, std::int64_t count) { sum += static_cast<double>(vectors.exp_sum(part, best, count, buffer)); });
  return static_cast<double>(best) + std::log(sum);
}

}  // namespace quern::cpu
