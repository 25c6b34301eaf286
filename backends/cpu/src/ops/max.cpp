// The largest of each row. NaN wins; -inf for a row without elements.
#include "log_sum_exp.hpp"
#include "reduce_rows.hpp"

namespace quern::cpu {
namespace {

void run_max(const Call& call, Context& context) noexcept { reduce_rows(call, context, largest); }

constexpr Kernel kernels_max[] = {{QUERN_OP_MAX, "max.portable", Isa::baseline, accepts_any, run_max}};

}  // namespace

const std::span<const Kernel> max_kernels = kernels_max;

}  // namespace quern::cpu
