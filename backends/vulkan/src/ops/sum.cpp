// The sum of all elements. Kernel: reduce.
#include "reduce.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_sum(const Call& call, Launcher& launcher) { launch_whole_reduction(call, whole_sum, launcher); }

}  // namespace

const Op sum_op = offer(QUERN_OP_SUM, "sum.vulkan", refuse_whole_sum, emit_sum, scratch_whole);

}  // namespace quern::vulkan
