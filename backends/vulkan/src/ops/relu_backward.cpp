// dx = dy times the slope of relu at x. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_relu_backward(const Call& call, Launcher& launcher) { launch_slope(call, kind_relu, launcher); }

}  // namespace

const Op relu_backward_op = offer(QUERN_OP_RELU_BACKWARD, "relu_backward.vulkan", nullptr, emit_relu_backward);

}  // namespace quern::vulkan
