// dx = dy times the slope of tanh at x. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_tanh_backward(const Call& call, Launcher& launcher) { launch_slope(call, kind_tanh, launcher); }

}  // namespace

const Op tanh_backward_op = offer(QUERN_OP_TANH_BACKWARD, "tanh_backward.vulkan", nullptr, emit_tanh_backward);

}  // namespace quern::vulkan
