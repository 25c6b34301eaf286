// Numbers between 0 and 1, by their place, the seed, the step and the salt. Kernel: random.
#include "random.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_random_uniform(const Call& call) { return check_contiguous(call.input(0)); }
void emit_random_uniform(const Call& call, Launcher& launcher) { launch_random(call, {}, call.output(0), 0, 0, launcher); }

}  // namespace

const Op random_uniform_op = offer(QUERN_OP_RANDOM_UNIFORM, "random_uniform.vulkan", refuse_random_uniform, emit_random_uniform);

}  // namespace quern::vulkan
