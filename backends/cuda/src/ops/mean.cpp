// The mean of all elements. Kernels: sum_along or sum_across, and sum_parts.
#include "sum.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_mean(const Call& call, Launcher& launcher) { launch_sum(call, sum_mean, true, launcher); }

}  // namespace

const Op mean_op{QUERN_OP_MEAN, "mean.cuda", nullptr, emit_mean, scratch_sum};

}  // namespace quern::cuda
