// Gradients of layer_norm. Kernel: norm_backward.
#include "norms.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_layer_norm_backward(const Call& call, Launcher& launcher) {
  launch_norm_backward(call, call.input(1), call.input(2), norm_layer, launcher);
}

}  // namespace

const Op layer_norm_backward_op = offer(QUERN_OP_LAYER_NORM_BACKWARD, "layer_norm_backward.vulkan", refuse_norm_backward,
                                        emit_layer_norm_backward, scratch_norm_backward, true);

}  // namespace quern::vulkan
