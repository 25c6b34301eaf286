// Gradients of rms_norm: norm_backward.hpp.
#include "norm_backward.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
void run_rms_norm_backward(const Call& call, Context& context) noexcept {
  run_norm_backward<isa, false>(call, context);
}

constexpr Kernel kernels_rms_norm_backward[] = {QUERN_CPU_KERNELS(QUERN_OP_RMS_NORM_BACKWARD, "rms_norm_backward", accepts_norm_backward,
                                                                  run_rms_norm_backward, scratch_norm_backward, true)};

}  // namespace

const std::span<const Kernel> rms_norm_backward_kernels = kernels_rms_norm_backward;

}  // namespace quern::cpu
