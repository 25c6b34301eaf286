// Gradients of rms_norm. Kernel: norm_backward.
#include "norms.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_rms_norm_backward(const Call& call, Launcher& launcher) {
  launch_norm_backward(call, call.input(1), call.input(2), norm_rms, launcher);
}

}  // namespace

const Op rms_norm_backward_op = offer(QUERN_OP_RMS_NORM_BACKWARD, "rms_norm_backward.vulkan", refuse_norm_backward, emit_rms_norm_backward,
                                      scratch_norm_backward, true);

}  // namespace quern::vulkan
