// dx = dy times the slope of gelu at x. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_gelu_backward(const Call& call, Launcher& launcher) { launch_slope(call, gelu_kind(call), launcher); }

}  // namespace

const Op gelu_backward_op = offer(QUERN_OP_GELU_BACKWARD, "gelu_backward.vulkan", nullptr, emit_gelu_backward);

}  // namespace quern::vulkan
