// The factor that brings a norm of gradients below max_norm.
#include "../kernels/optimiser.hpp"

#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_clip_scale(const Call& call, Launcher& launcher) {
  const ClipParams p{call.input(0).data, call.input(1).data, call.output(0).data, static_cast<float>(call.real(QUERN_KEY_MAX_NORM))};
  launcher.launch(kernels::clip_scale, {1, 1, 1}, 32, p);
}

}  // namespace

const Op clip_scale_op{QUERN_OP_CLIP_SCALE, "clip_scale.cuda", nullptr, emit_clip_scale};

}  // namespace quern::cuda
