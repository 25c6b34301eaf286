// x / (1 - p) where the random number is at least p, else 0. Kernel: random.
#include "random.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_dropout(const Call& call) { return check_contiguous(call.input(1)); }
void emit_dropout(const Call& call, Launcher& launcher) {
  launch_random(call, call.input(0), call.output(0), 1, call.real(QUERN_KEY_P), launcher);
}

}  // namespace

const Op dropout_op = offer(QUERN_OP_DROPOUT, "dropout.vulkan", refuse_dropout, emit_dropout);

}  // namespace quern::vulkan
