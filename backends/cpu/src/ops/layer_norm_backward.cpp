// Gradients of layer_norm: norm_backward.hpp.
#include "norm_backward.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
void run_layer_norm_backward(const Call& call, Context& context) noexcept {
  run_norm_backward<isa, true>(call, context);
}

constexpr Kernel kernels_layer_norm_backward[] = {QUERN_CPU_KERNELS(
    QUERN_OP_LAYER_NORM_BACKWARD, "layer_norm_backward", accepts_norm_backward, run_layer_norm_backward, scratch_norm_backward, true)};

}  // namespace

const std::span<const Kernel> layer_norm_backward_kernels = kernels_layer_norm_backward;

}  // namespace quern::cpu
