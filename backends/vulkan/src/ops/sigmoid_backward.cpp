// dx = dy times the slope of sigmoid at x. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_sigmoid_backward(const Call& call, Launcher& launcher) { launch_slope(call, kind_sigmoid, launcher); }

}  // namespace

const Op sigmoid_backward_op = offer(QUERN_OP_SIGMOID_BACKWARD, "sigmoid_backward.vulkan", nullptr, emit_sigmoid_backward);

}  // namespace quern::vulkan
