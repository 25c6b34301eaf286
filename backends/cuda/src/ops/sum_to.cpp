// x summed over its repeats. Kernels: sum_along or sum_across, and sum_parts.
#include "sum.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_sum_to(const Call& call, Launcher& launcher) { launch_sum(call, sum_plain, false, launcher); }

}  // namespace

const Op sum_to_op{QUERN_OP_SUM_TO, "sum_to.cuda", nullptr, emit_sum_to, scratch_sum};

}  // namespace quern::cuda
