// dx = dy times the slope of silu at x. Kernel: elementwise.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_silu_backward(const Call& call, Launcher& launcher) { launch_slope(call, kind_silu, launcher); }

}  // namespace

const Op silu_backward_op = offer(QUERN_OP_SILU_BACKWARD, "silu_backward.vulkan", nullptr, emit_silu_backward);

}  // namespace quern::vulkan
