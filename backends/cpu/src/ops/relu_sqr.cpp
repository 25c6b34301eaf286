// y is x^2 above 0, else 0. NaN stays NaN.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

void run_relu_sqr(const Call& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return x <= 0.0f ? 0.0f : x * x; });
}

constexpr Kernel kernels_relu_sqr[] = {{QUERN_OP_RELU_SQR, "relu_sqr.portable", Isa::baseline, accepts_any, run_relu_sqr}};

}  // namespace

const std::span<const Kernel> relu_sqr_kernels = kernels_relu_sqr;

}  // namespace quern::cpu
