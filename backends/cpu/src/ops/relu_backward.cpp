// dx is dy where x > 0, else 0.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

void run_relu_backward(const Call& call, Context& context) noexcept {
  map_pairs(call.input(0), call.input(1), call.output(0), context, [](float x, float dy) { return x > 0.0f ? dy : 0.0f; });
}

constexpr Kernel kernels_relu_backward[] = {
    {QUERN_OP_RELU_BACKWARD, "relu_backward.portable", Isa::baseline, accepts_any, run_relu_backward}};

}  // namespace

const std::span<const Kernel> relu_backward_kernels = kernels_relu_backward;

}  // namespace quern::cpu
