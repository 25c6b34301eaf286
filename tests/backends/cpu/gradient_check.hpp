// What tests of gradients share: errors of storing, f64 central differences, and gradients of rows from those of elements.
#pragma once

#include "harness.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace quern::cpu_test {

constexpr double u = 0x1p-24;

/// Of rounding r to a dtype: half an ulp, or half the smallest subnormal.
inline double out_error(quern_dtype dtype, double r) {
  const double unit = dtype == QUERN_F16 ? 0x1p-11 : dtype == QUERN_BF16 ? 0x1p-8 : u;
  return unit * std::fabs(r) * (1 + 0x1p-4) + (dtype == QUERN_F16 ? 0x1p-25 : 0x1p-134);
}

/// A sum of n products in blocks: times the sum of their sizes.
inline double accumulation(std::size_t n) { return (2 * std::sqrt(static_cast<double>(n)) + 8) * u; }

/// d f / d x[i] by central differences. With f64 and a step of 1e-5 it is off by about 1e-10 of the size of f and its derivatives.
inline double slope_at(std::vector<double> x, std::size_t i, const std::function<double(const std::vector<double>&)>& f) {
  constexpr double h = 1e-5;
  const double at = x[i];
  x[i] = at + h;
  const double above = f(x);
  x[i] = at - h;
  return (above - f(x)) / (2 * h);
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace quern::cpu_test
