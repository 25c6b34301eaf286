// y = weight (x - mean) / sqrt(variance + epsilon) + bias a row. Kernel: norm.
#include "norms.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_layer_norm(const Call& call, Launcher& launcher) {
  launch_norm(call, {}, {}, call.input(1), call.input(2), call.output(0), norm_layer, launcher);
}

}  // namespace

const Op layer_norm_op = offer(QUERN_OP_LAYER_NORM, "layer_norm.vulkan", refuse_norm, emit_layer_norm);

}  // namespace quern::vulkan
