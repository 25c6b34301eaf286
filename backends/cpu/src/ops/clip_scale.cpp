// scale = min(1, max_norm / (norm / loss_scale)) / loss_scale, in f64. A norm of 0 clips nothing; NaN stays NaN.
#include "map_rows.hpp"
#include "optimiser_rows.hpp"

namespace quern::cpu {
namespace {

Verdict accepts_clip_scale(const OpCall& call) {
  if (Verdict v = check_number(call.input(0), "norm", QUERN_F32); !v) return v;
  if (call.input(1).present())
    if (Verdict v = check_number(call.input(1), "loss_scale", QUERN_F32); !v) return v;
  if (const double most = call.real(QUERN_KEY_MAX_NORM); !(most > 0.0))
    return Verdict::invalid(concat("max_norm is ", most, "; it is above 0"));
  return check_number(call.output(0), "scale", QUERN_F32);
}

void run_clip_scale(const OpCall& call, Context&) noexcept {
  const double loss_scale = call.input(1).present() ? static_cast<double>(load_scalar(call.input(1), 0)) : 1.0;
  const double clipped = call.real(QUERN_KEY_MAX_NORM) / (static_cast<double>(load_scalar(call.input(0), 0)) / loss_scale);
  store_scalar(call.output(0), 0, static_cast<float>((clipped > 1.0 ? 1.0 : clipped) / loss_scale));
}

constexpr Kernel kernels_clip_scale[] = {{QUERN_OP_CLIP_SCALE, "clip_scale.portable", Isa::baseline, accepts_clip_scale, run_clip_scale}};

}  // namespace

const std::span<const Kernel> clip_scale_kernels = kernels_clip_scale;

}  // namespace quern::cpu
