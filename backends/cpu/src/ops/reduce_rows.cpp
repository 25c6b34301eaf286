// max, sum_rows and logsumexp along the last dimension. NaN wins; a row without elements gives -inf, 0 and -inf.
#include "log_sum_exp.hpp"

namespace quern::cpu {
namespace {

/// y[row] = f(row).
template <typename F>
void reduce(const Call& call, Context& context, const F& f) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  context.parallel(x.rows(), rows_a_part(x.last()), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t row = begin; row < end; ++row) store_scalar(y, row, static_cast<float>(f(x, row)));
  });
}

void run_max(const Call& call, Context& context) noexcept { reduce(call, context, largest); }
void run_logsumexp(const Call& call, Context& context) noexcept {
  reduce(call, context, [](const Tensor& x, std::int64_t row) { return log_sum_exp(x, row, portable::vectors); });
}
void run_sum_rows(const Call& call, Context& context) noexcept {
  reduce(call, context,
         [](const Tensor& x, std::int64_t row) { return static_cast<float>(row_sum(x, row, 0, x.last(), [](float v) { return v; })); });
}

constexpr Kernel kernels_reduce_rows[] = {
    {QUERN_OP_MAX, "max.portable", Isa::baseline, accepts_any, run_max},
    {QUERN_OP_LOGSUMEXP, "logsumexp.portable", Isa::baseline, accepts_any, run_logsumexp},
    {QUERN_OP_SUM_ROWS, "sum_rows.portable", Isa::baseline, accepts_any, run_sum_rows},
};

}  // namespace

const std::span<const Kernel> reduce_rows_kernels = kernels_reduce_rows;

}  // namespace quern::cpu
