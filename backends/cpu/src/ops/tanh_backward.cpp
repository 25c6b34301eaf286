// dx = dy times the slope of tanh at x, by the C library's functions.
#include "activation.hpp"
#include "slopes.hpp"

namespace quern::cpu {
namespace {

void run_tanh_backward(const Call& call, Context& context) noexcept { run_slope(call, context, tanh_slope); }

constexpr Kernel kernels_tanh_backward[] = {
    {QUERN_OP_TANH_BACKWARD, "tanh_backward.portable", Isa::baseline, accepts_any, run_tanh_backward}};

}  // namespace

const std::span<const Kernel> tanh_backward_kernels = kernels_tanh_backward;

}  // namespace quern::cpu
