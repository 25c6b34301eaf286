// Gradients of glu. Kernel: glu.
#include "glu.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_glu_backward(const Call& call, Launcher& launcher) {
  launch_glu(call, glu_factors(call, call.output(0), call.output(1)), call.input(2), true, launcher);
}

}  // namespace

const Op glu_backward_op = offer(QUERN_OP_GLU_BACKWARD, "glu_backward.vulkan", nullptr, emit_glu_backward);

}  // namespace quern::vulkan
