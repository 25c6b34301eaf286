// The sum of each row; 0 for a row without elements.
#include "reduce_rows.hpp"

namespace quern::cpu {
namespace {

void run_sum_rows(const Call& call, Context& context) noexcept {
  reduce_rows(call, context, [](const Tensor& x, std::int64_t row) {
    return static_cast<float>(row_sum(x, row, 0, x.last(), [](float v) { return v; }));
  });
}

constexpr Kernel kernels_sum_rows[] = {{QUERN_OP_SUM_ROWS, "sum_rows.portable", Isa::baseline, accepts_any, run_sum_rows}};

}  // namespace

const std::span<const Kernel> sum_rows_kernels = kernels_sum_rows;

}  // namespace quern::cpu
