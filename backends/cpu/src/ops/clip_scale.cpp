// scale = min(1, max_norm / (norm / loss_scale)) / loss_scale, in f64. A norm of 0 clips nothing; NaN stays NaN.
#include "map_rows.hpp"
#include "optimiser_rows.hpp"

namespace quern::cpu {
namespace {

void run_clip_scale(const Call& call, Context&) noexcept {
  const double loss_scale = call.input(1).present() ? static_cast<double>(load_scalar(call.input(1), 0)) : 1.0;
  const double clipped = call.real(QUERN_KEY_MAX_NORM) / (static_cast<double>(load_scalar(call.input(0), 0)) / loss_scale);
  store_scalar(call.output(0), 0, static_cast<float>((clipped > 1.0 ? 1.0 : clipped) / loss_scale));
}

constexpr Kernel kernels_clip_scale[] = {{QUERN_OP_CLIP_SCALE, "clip_scale.portable", Isa::baseline, accepts_any, run_clip_scale}};

}  // namespace

const std::span<const Kernel> clip_scale_kernels = kernels_clip_scale;

}  // namespace quern::cpu
