// log(sum(exp(x))) of each row. NaN wins; -inf for a row without elements.
#include "log_sum_exp.hpp"
#include "reduce_rows.hpp"

namespace quern::cpu {
namespace {

void run_logsumexp(const Call& call, Context& context) noexcept {
  reduce_rows(call, context, [](const Tensor& x, std::int64_t row) { return log_sum_exp(x, row, portable::vectors); });
}

constexpr Kernel kernels_logsumexp[] = {{QUERN_OP_LOGSUMEXP, "logsumexp.portable", Isa::baseline, accepts_any, run_logsumexp}};

}  // namespace

const std::span<const Kernel> logsumexp_kernels = kernels_logsumexp;

}  // namespace quern::cpu
