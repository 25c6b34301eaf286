// What plain kernels share: one pass over the elements of two tensors of one shape, sums along a row, and stores of one element.
#pragma once

#include "vectorised.hpp"

#include <algorithm>

namespace quern::cpu {

constexpr std::int64_t map_part = 256;  // floats that a thread holds on its stack at a time

/// y = f(x) for rows of two tensors of one shape, by f(x, n, y) on parts of packed floats. y may be x.
template <typename F>
void map_rows(const Tensor& x, const Tensor& y, Context& context, const F& f) noexcept {
  const std::int64_t n = x.last(), parts = (n + map_part - 1) / map_part;
  context.parallel(x.rows() * parts, rows_a_part(std::min(n, map_part)), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float buffer[map_part];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts, first = i % parts * map_part, count = std::min(map_part, n - first);
      load_row(x, row, first, count, buffer);
      f(buffer, count, buffer);
      store_row(y, row, first, count, buffer);
    }
  });
}

/// y = f(x) for each element, in f32 with one rounding at the store. y may be x.
template <typename F>
void map_elements(const Tensor& x, const Tensor& y, Context& context, const F& f) noexcept {
  map_rows(x, y, context, [&f](const float* from, std::int64_t n, float* to) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = f(from[i]);
  });
}

/// dx = f(x, dy) for each element, in f32 with one rounding at the store. dx may be x or dy.
template <typename F>
void map_pairs(const Tensor& x, const Tensor& dy, const Tensor& dx, Context& context, const F& f) noexcept {
  const std::int64_t n = x.last(), parts = (n + map_part - 1) / map_part;
  context.parallel(x.rows() * parts, rows_a_part(std::min(n, map_part)), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float left[map_part], right[map_part];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts, first = i % parts * map_part, count = std::min(map_part, n - first);
      load_row(x, row, first, count, left);
      load_row(dy, row, first, count, right);
      for (std::int64_t j = 0; j < count; ++j) left[j] = f(left[j], right[j]);
      store_row(dx, row, first, count, left);
    }
  });
}

/// Sum of f(x) over elements [first, end) of a row. Blocked: f32 sums of 512 in 16 lanes, which are added up in f64.
template <typename F>
double row_sum(const Tensor& x, std::int64_t row, std::int64_t first, std::int64_t end, const F& f) noexcept {
  constexpr std::int64_t part = 512;
  float buffer[part];
  double total = 0.0;
  for (; first < end; first += part) {
    const std::int64_t count = std::min(part, end - first);
    load_row(x, row, first, count, buffer);
    for (std::int64_t i = 0; i < count; ++i) buffer[i] = f(buffer[i]);
    total += static_cast<double>(portable::vectors.sum(buffer, count));
  }
  return total;
}

/// Element `index` in row-major order of a float tensor.
inline void store_scalar(const Tensor& view, std::int64_t index, float value) noexcept {
  const std::int64_t length = view.last();
  std::byte* to = view.rank < 2 ? bytes_of(view) + index * view.stride_from_end(0)
                                : row_pointer(view, index / length) + index % length * view.stride_from_end(0);
  store_floats(to, view.dtype, 0, 0, 1, &value);
}

/// A row of zeros, as for an index out of range.
inline void store_zeros(const Tensor& view, std::int64_t row) noexcept {
  constexpr float zeros[map_part] = {};
  const std::int64_t n = view.last();
  for (std::int64_t first = 0; first < n; first += map_part) store_row(view, row, first, std::min(map_part, n - first), zeros);
}

}  // namespace quern::cpu
