// What sort and top_k share. Ties go to the lowest index; NaN counts as -inf, as in argmax, and comes out as it was.
#pragma once

#include "vectorised.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace quern::cpu {

inline Verdict accepts_sorted_rows(const Call& call) {
  if (call.input(0).last() > std::numeric_limits<std::int32_t>::max()) return Verdict::no("the rows of x are longer than an i32 counts");
  return Verdict::yes();
}

inline std::uint64_t scratch_sort_rows(const Call& call) noexcept {
  return static_cast<std::uint64_t>(call.input(0).last()) * 8 * call.thread_count;
}

/// A total order, so that any sort is stable.
struct SortedBefore {
  const float* x;
  bool descending;
  float key(std::int32_t i) const noexcept { return x[i] == x[i] ? x[i] : -std::numeric_limits<float>::infinity(); }
  bool operator()(std::int32_t a, std::int32_t b) const noexcept {
    const float left = key(a), right = key(b);
    if (left != right) return descending ? left > right : left < right;
    return a < b;
  }
};

inline void sort_rows(const Call& call, Context& context, std::int64_t count, bool descending) noexcept {
  const Tensor &x = call.input(0), &value = call.output(0), &index = call.output(1);
  const std::int64_t n = x.last();
  context.parallel(x.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    auto* buffer = reinterpret_cast<float*>(context.scratch()) + thread * 2 * n;
    auto* ids = reinterpret_cast<std::int32_t*>(buffer + n);
    for (std::int64_t row = begin; row < end; ++row) {
      const float* from = row_floats(portable::vectors, x, row, buffer);
      std::iota(ids, ids + n, 0);
      std::partial_sort(ids, ids + count, ids + n, SortedBefore{from, descending});
      std::byte *values = row_pointer(value, row), *indices = row_pointer(index, row);
      for (std::int64_t i = 0; i < count; ++i) {
        __builtin_memcpy(values + i * value.stride_from_end(0), &from[ids[i]], 4);
        __builtin_memcpy(indices + i * index.stride_from_end(0), &ids[i], 4);
      }
    }
  });
}

}  // namespace quern::cpu
