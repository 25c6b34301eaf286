// What sums over all elements share.
//
// Parts of at most 4096 elements are cut by the shape alone and add up in their order, so threads do not change the result.
#pragma once

#include "element_parts.hpp"
#include "map_rows.hpp"

namespace quern::cpu {

inline std::uint64_t scratch_reduce_all(const Call& call) noexcept {
  return static_cast<std::uint64_t>(element_parts(call.input(0)).count) * 8;
}

template <typename F>
double sum_all(const Tensor& x, Context& context, const F& f) noexcept {
  const auto sum = [&f](const Tensor& view, std::int64_t row, std::int64_t first, std::int64_t last) {
    return row_sum(view, row, first, last, f);
  };
  return sum_parts(x, context, reinterpret_cast<double*>(context.scratch()), sum);
}

}  // namespace quern::cpu
