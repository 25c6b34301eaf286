// Pieces of matrices as packed f32, for the gradients of products: each op gathers what it multiplies and adds blocks with `accumulate`.
#pragma once

#include "vectorised.hpp"

#include <algorithm>

namespace quern::cpu {

constexpr std::int64_t product_rows = accumulate_block;  // summed over in one block
constexpr std::int64_t product_columns = 256;            // of an output made together

inline std::int64_t whole_lanes(std::int64_t n) noexcept { return (n + 15) / 16 * 16; }

/// Elements [first, first + count) of the row at `row` to `to`, with zeros up to a whole number of lanes.
inline void gather(const Vectors& vectors, quern_dtype dtype, const std::byte* row, std::int64_t stride, std::int64_t first,
                   std::int64_t count, float* to) noexcept {
  if (stride == unit_bytes(dtype)) vectors.to_floats(dtype, row + first * stride, count, to);
  else load_floats(row, dtype, stride, first, count, to);
  std::fill(to + count, to + whole_lanes(count), 0.0f);
}

/// Elements first .. of a row = factor * values, added to what is there or not. Overwrites `values`; `before` is as long.
inline void store_product(std::byte* row, quern_dtype dtype, std::int64_t stride, std::int64_t first, std::int64_t count, float factor,
                          bool add, float* values, float* before) noexcept {
  if (factor != 1.0f)
    for (std::int64_t i = 0; i < count; ++i) values[i] *= factor;
  if (add) {
    load_floats(row, dtype, stride, first, count, before);
    for (std::int64_t i = 0; i < count; ++i) values[i] += before[i];
  }
  store_floats(row, dtype, stride, first, count, values);
}

}  // namespace quern::cpu
