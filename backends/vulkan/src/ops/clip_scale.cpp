// The factor that brings a norm of gradients below max_norm.
#include "tables.hpp"
#include "../shaders/modes.h"

namespace quern::vulkan {
namespace {

void emit_clip_scale(const Call& call, Launcher& launcher) {
  GradNormParams p{};
  p.norm = call.input(0).data;
  p.finite = call.input(1).data;
  p.partial = call.output(0).data;
  p.max_norm = call.number(QUERN_KEY_MAX_NORM);
  launcher.launch("grad_norm", 1, {1, 1, 1}, p, {grad_norm_scale});
}

}  // namespace

const Op clip_scale_op = offer(QUERN_OP_CLIP_SCALE, "clip_scale.vulkan", nullptr, emit_clip_scale, nullptr, false, true);

}  // namespace quern::vulkan
