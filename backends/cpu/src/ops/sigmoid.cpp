// y = 1 / (1 + exp(-x)).
#include "activation.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
void run_sigmoid(const Call& call, Context& context) noexcept {
  run_activation<isa>(call, context, Activation::sigmoid);
}

constexpr Kernel kernels_sigmoid[] = {QUERN_CPU_KERNELS(QUERN_OP_SIGMOID, "sigmoid", accepts_any, run_sigmoid, nullptr, false)};

}  // namespace

const std::span<const Kernel> sigmoid_kernels = kernels_sigmoid;

}  // namespace quern::cpu
