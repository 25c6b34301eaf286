// Gradients of l2_norm. Kernel: norm_backward.
#include "norms.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_l2_norm_backward(const Call& call, Launcher& launcher) { launch_norm_backward(call, {}, call.input(1), norm_l2, launcher); }

}  // namespace

const Op l2_norm_backward_op =
    offer(QUERN_OP_L2_NORM_BACKWARD, "l2_norm_backward.vulkan", nullptr, emit_l2_norm_backward, scratch_norm_backward);

}  // namespace quern::vulkan
