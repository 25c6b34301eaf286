// x again and again until it fills y. Kernel: repeat.
#include "arrange.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_repeat(const Call& call) { return check_repeats(call.output(0)); }
void emit_repeat(const Call& call, Launcher& launcher) { launch_repeat(call.input(0), call.output(0), false, launcher); }

}  // namespace

const Op repeat_op = offer(QUERN_OP_REPEAT, "repeat.vulkan", refuse_repeat, emit_repeat);

}  // namespace quern::vulkan
