// x summed over its repeats. Kernel: repeat.
#include "arrange.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_sum_to(const Call& call) { return check_repeats(call.input(0)); }
void emit_sum_to(const Call& call, Launcher& launcher) { launch_repeat(call.output(0), call.input(0), true, launcher); }

}  // namespace

const Op sum_to_op = offer(QUERN_OP_SUM_TO, "sum_to.vulkan", refuse_sum_to, emit_sum_to);

}  // namespace quern::vulkan
