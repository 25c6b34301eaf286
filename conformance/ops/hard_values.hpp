// Fillings of numbers that kernels get wrong: not finite, beyond a narrower type, tiny, far from all others. Rows are the last dimension.
#pragma once

#include "ops/family.hpp"

#include <limits>

namespace quern::conformance {

/// Rows in turn: a NaN at the end, usual, +inf at the start, usual, -inf in the middle, infinities of both signs, usual. What is usual has no 0.
inline void fill_not_finite_rows(const Tensor& x, const CounterRandom& random) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::int64_t n = x.dim_from_end(0);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t row = i / n % 7, column = i % n;
    const double usual = random.gaussian(static_cast<std::uint64_t>(i));
    double v = std::fabs(usual) < 0x1p-10 ? 0x1p-10 : usual;
    if (row == 0 && column == n - 1) v = std::numeric_limits<double>::quiet_NaN();
    if (row == 2 && column == 0) v = infinity;
    if (row == 4 && column == n / 2) v = -infinity;
    if (row == 5 && column == n / 3) v = infinity;
    if (row == 5 && column == n - 1) v = -infinity;
    x.set(i, v);
  }
}

/// Rows in turn: one element of 2^20 among usual ones, at the end; usual; all near 2^17; all near 2^100 (f16: near 2^13); -2^24 at the start.
/// In f16 the large ones are its largest.
inline void fill_beyond_f16(const Tensor& x, const CounterRandom& random) {
  const std::int64_t n = x.dim_from_end(0);
  const bool half = x.dtype() == QUERN_F16;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t row = i / n % 5, column = i % n;
    double v = random.gaussian(static_cast<std::uint64_t>(i));
    if (row == 0 && column == n - 1) v = half ? 65504.0 : 0x1p20;
    if (row == 2) v *= half ? 0x1p13 : 0x1p17;
    if (row == 3) v *= half ? 0x1p13 : 0x1p100;
    if (row == 4 && column == 0) v = half ? -65504.0 : -0x1p24;
    x.set(i, v);
  }
}

/// Blocks of 256 elements, or a third of a row where that is less. Rows in turn: the first block near 2^-130 among usual ones; the last of
/// zeros; all near 2^-90; usual; the first of subnormals of a few steps; all zeros. f16: near 2^-20 instead of 2^-90, and its subnormals.
inline void fill_tiny_blocks(const Tensor& x, const CounterRandom& random) {
  const std::int64_t n = x.dim_from_end(0), block = std::max<std::int64_t>(1, std::min<std::int64_t>(256, n / 3));
  const bool half = x.dtype() == QUERN_F16;
  const double step = half ? 0x1p-24 : x.dtype() == QUERN_BF16 ? 0x1p-133 : 0x1p-149;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t row = i / n % 6, column = i % n;
    const double usual = random.gaussian(static_cast<std::uint64_t>(i));
    double v = usual;
    if (row == 0 && column < block) v = usual * (half ? 0x1p-22 : 0x1p-130);
    if (row == 1 && column >= n - block) v = 0;
    if (row == 2) v = usual * (half ? 0x1p-20 : 0x1p-90);
    if (row == 4 && column < block) v = std::round(2.0 * usual) * step;
    if (row == 5) v = 0;
    x.set(i, v);
  }
}

/// Where row `row` of `rows` has its largest element: the first, each lane of a vector in turn, and the last.
inline std::int64_t far_place(std::int64_t row, std::int64_t rows, std::int64_t n) {
  if (row == rows - 1) return n - 1;
  const std::int64_t apart = rows > 1 ? n / (rows - 1) : 1;
  return row * (apart + (apart > 1 && apart % 2 == 0 ? 1 : 0)) % n;
}
/// Gaussian about `offset`, but for one element of each row, 100 above the rest, at far_place: exp of the difference overflows f32.
inline ValueSpec one_far(ValueSpec x, const char* name, double offset) {
  return filled(std::move(x), name, [offset](const Tensor& t, const CounterRandom& random) {
    const std::int64_t n = t.dim_from_end(0), rows = t.count() / std::max<std::int64_t>(1, n);
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const bool far = i % n == far_place(i / n, rows, n);
      t.set(i, offset + (far ? 100.0 : random.gaussian(static_cast<std::uint64_t>(i))));
    }
  });
}
/// Gaussian about -200, -1e4 and so on, row by row: no element is near 0.
inline void fill_negative_rows(const Tensor& x, const CounterRandom& random) {
  static constexpr double offsets[] = {-200.0, -1e4, -90.0, -60000.0, -1000.0};
  const std::int64_t n = x.dim_from_end(0);
  for (std::int64_t i = 0; i < x.count(); ++i) x.set(i, offsets[i / n % 5] + random.gaussian(static_cast<std::uint64_t>(i)));
}

}  // namespace quern::conformance
