// dx = dy times the slope of relu_sqr at x. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_relu_sqr_backward(const Call& call, Launcher& launcher) { launch_slope(call, kind_relu_sqr, launcher); }

}  // namespace

const Op relu_sqr_backward_op = offer(QUERN_OP_RELU_SQR_BACKWARD, "relu_sqr_backward.vulkan", nullptr, emit_relu_sqr_backward);

}  // namespace quern::vulkan
