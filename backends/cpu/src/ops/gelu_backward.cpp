// dx = dy times the slope of gelu at x, by the C library's functions.
#include "activation.hpp"
#include "slopes.hpp"

namespace quern::cpu {
namespace {

void run_gelu_backward(const Call& call, Context& context) noexcept {
  switch (call.integer(QUERN_KEY_KIND)) {
    case gelu_quick: return run_slope(call, context, gelu_quick_slope);
    case gelu_tanh: return run_slope(call, context, gelu_tanh_slope);
    default: return run_slope(call, context, gelu_erf_slope);
  }
}

constexpr Kernel kernels_gelu_backward[] = {
    {QUERN_OP_GELU_BACKWARD, "gelu_backward.portable", Isa::baseline, accepts_any, run_gelu_backward}};

}  // namespace

const std::span<const Kernel> gelu_backward_kernels = kernels_gelu_backward;

}  // namespace quern::cpu
