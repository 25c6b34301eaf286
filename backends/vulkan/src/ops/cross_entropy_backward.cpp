// dlogits of cross_entropy. Kernel: loss.
#include "loss.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_cross_entropy_backward(const Call& call, Launcher& launcher) {
  launch_loss(call, call.input(3), call.input(2), call.output(0), loss_entropy_backward, launcher);
}

}  // namespace

const Op cross_entropy_backward_op =
    offer(QUERN_OP_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward.vulkan", nullptr, emit_cross_entropy_backward, nullptr, true);

}  // namespace quern::vulkan
