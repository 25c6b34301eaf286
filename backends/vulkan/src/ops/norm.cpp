// The root of the sum of all squares. Kernel: reduce.
#include "reduce.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_norm(const Call& call, Launcher& launcher) { launch_whole_reduction(call, whole_norm, launcher); }

}  // namespace

const Op norm_op = offer(QUERN_OP_NORM, "norm.vulkan", refuse_whole_sum, emit_norm, scratch_whole);

}  // namespace quern::vulkan
