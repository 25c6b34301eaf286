// y is x above 0, else 0. NaN stays NaN.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

void run_relu(const Call& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return x <= 0.0f ? 0.0f : x; });
}

constexpr Kernel kernels_relu[] = {{QUERN_OP_RELU, "relu.portable", Isa::baseline, accepts_any, run_relu}};

}  // namespace

const std::span<const Kernel> relu_kernels = kernels_relu;

}  // namespace quern::cpu
