// dx is 2 x dy where x > 0, else 0.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

void run_relu_sqr_backward(const Call& call, Context& context) noexcept {
  map_pairs(call.input(0), call.input(1), call.output(0), context,
            [](float x, float dy) { return x <= 0.0f ? 0.0f : 2.0f * (x * dy); });  // 2 x alone may overflow
}

constexpr Kernel kernels_relu_sqr_backward[] = {
    {QUERN_OP_RELU_SQR_BACKWARD, "relu_sqr_backward.portable", Isa::baseline, accepts_any, run_relu_sqr_backward}};

}  // namespace

const std::span<const Kernel> relu_sqr_backward_kernels = kernels_relu_sqr_backward;

}  // namespace quern::cpu
