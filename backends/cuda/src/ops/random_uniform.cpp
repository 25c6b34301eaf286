// Numbers between 0 and 1, by their place, the seed, the step and the salt.
#include "random.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_random_uniform(const Call& call) { return check_contiguous(call.input(0)); }

void emit_random_uniform(const Call& call, Launcher& launcher) {
  launch_random(kernels::random_uniform, call, {}, call.input(0), call.input(1), 0, launcher);
}

}  // namespace

const Op random_uniform_op{QUERN_OP_RANDOM_UNIFORM, "random_uniform.cuda", refuse_random_uniform, emit_random_uniform};

}  // namespace quern::cuda
