// What reductions along the last dimension share.
#pragma once

#include "map_rows.hpp"

namespace quern::cpu {

/// y[row] = f(row).
template <typename F>
void reduce_rows(const Call& call, Context& context, const F& f) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  context.parallel(x.rows(), rows_a_part(x.last()), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t row = begin; row < end; ++row) store_scalar(y, row, static_cast<float>(f(x, row)));
  });
}

}  // namespace quern::cpu
