// y = (weight + weight_offset) x / sqrt(mean(x^2) + epsilon) a row. Kernel: norm.
#include "norms.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_rms_norm(const Call& call, Launcher& launcher) {
  launch_norm(call, {}, {}, call.input(1), {}, call.output(0), norm_rms, launcher);
}

}  // namespace

const Op rms_norm_op = offer(QUERN_OP_RMS_NORM, "rms_norm.vulkan", refuse_norm, emit_rms_norm);

}  // namespace quern::vulkan
