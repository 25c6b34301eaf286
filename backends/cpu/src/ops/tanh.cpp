// y = tanh(x).
#include "activation.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
void run_tanh(const Call& call, Context& context) noexcept {
  run_activation<isa>(call, context, Activation::tanh);
}

constexpr Kernel kernels_tanh[] = {QUERN_CPU_KERNELS(QUERN_OP_TANH, "tanh", accepts_any, run_tanh, nullptr, false)};

}  // namespace

const std::span<const Kernel> tanh_kernels = kernels_tanh;

}  // namespace quern::cpu
