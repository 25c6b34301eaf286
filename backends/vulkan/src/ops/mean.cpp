// The mean of all elements. Kernel: reduce.
#include "reduce.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_mean(const Call& call, Launcher& launcher) { launch_whole_reduction(call, whole_mean, launcher); }

}  // namespace

const Op mean_op = offer(QUERN_OP_MEAN, "mean.vulkan", refuse_whole_sum, emit_mean, scratch_whole);

}  // namespace quern::vulkan
