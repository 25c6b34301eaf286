// sum = a + b, and its rms_norm. Kernel: norm.
#include "norms.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_add_rms_norm(const Call& call, Launcher& launcher) {
  launch_norm(call, call.input(1), call.output(0), call.input(2), {}, call.output(1), norm_add_rms, launcher);
}

}  // namespace

const Op add_rms_norm_op = offer(QUERN_OP_ADD_RMS_NORM, "add_rms_norm.vulkan", refuse_norm, emit_add_rms_norm);

}  // namespace quern::vulkan
