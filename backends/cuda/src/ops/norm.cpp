// The root of the sum of all squares. Kernels: sum_along or sum_across, and sum_parts.
#include "sum.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_norm(const Call& call, Launcher& launcher) { launch_sum(call, sum_norm, true, launcher); }

}  // namespace

const Op norm_op{QUERN_OP_NORM, "norm.cuda", nullptr, emit_norm, scratch_sum};

}  // namespace quern::cuda
