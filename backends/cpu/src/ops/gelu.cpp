// y = x Phi(x), exactly or as one of its two approximations.
#include "activation.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
void run_gelu(const Call& call, Context& context) noexcept {
  const std::int64_t kind = call.integer(QUERN_KEY_KIND);
  run_activation<isa>(call, context,
                      kind == gelu_quick  ? Activation::gelu_quick
                      : kind == gelu_tanh ? Activation::gelu_tanh
                                          : Activation::gelu_erf);
}

constexpr Kernel kernels_gelu[] = {QUERN_CPU_KERNELS(QUERN_OP_GELU, "gelu", accepts_any, run_gelu, nullptr, false)};

}  // namespace

const std::span<const Kernel> gelu_kernels = kernels_gelu;

}  // namespace quern::cpu
