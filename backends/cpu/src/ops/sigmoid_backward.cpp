// dx = dy times the slope of sigmoid at x, by the C library's functions.
#include "activation.hpp"
#include "slopes.hpp"

namespace quern::cpu {
namespace {

void run_sigmoid_backward(const Call& call, Context& context) noexcept { run_slope(call, context, sigmoid_slope); }

constexpr Kernel kernels_sigmoid_backward[] = {
    {QUERN_OP_SIGMOID_BACKWARD, "sigmoid_backward.portable", Isa::baseline, accepts_any, run_sigmoid_backward}};

}  // namespace

const std::span<const Kernel> sigmoid_backward_kernels = kernels_sigmoid_backward;

}  // namespace quern::cpu
