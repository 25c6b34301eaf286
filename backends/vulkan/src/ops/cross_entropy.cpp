// The loss of each row of logits, and the log of the sum of its exponentials. Kernel: loss.
#include "loss.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_cross_entropy(const Call& call, Launcher& launcher) {
  launch_loss(call, call.output(0), call.output(1), {}, loss_entropy, launcher);
}

}  // namespace

const Op cross_entropy_op = offer(QUERN_OP_CROSS_ENTROPY, "cross_entropy.vulkan", nullptr, emit_cross_entropy, nullptr, true);

}  // namespace quern::vulkan
