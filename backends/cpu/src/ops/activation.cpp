// gelu, relu, relu_sqr, sigmoid and tanh: y in f32 with one rounding at the store. -inf becomes 0 where the limit is 0; NaN stays NaN.
// simd/activations.cpp has the functions and their errors.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

enum { gelu_erf = 0, gelu_tanh = 1, gelu_quick = 2 };

template <Isa isa>
void run_activation(const Call& call, Context& context, Activation activation) noexcept {
  map_rows(call.input(0), call.output(0), context,
           [activation](const float* x, std::int64_t n, float* y) { vectors_of(isa).activate(activation, x, n, y); });
}

template <Isa isa>
void run_gelu(const Call& call, Context& context) noexcept {
  const std::int64_t kind = call.integer(QUERN_KEY_KIND);
  run_activation<isa>(call, context,
                      kind == gelu_quick  ? Activation::gelu_quick
                      : kind == gelu_tanh ? Activation::gelu_tanh
                                          : Activation::gelu_erf);
}
template <Isa isa>
void run_sigmoid(const Call& call, Context& context) noexcept {
  run_activation<isa>(call, context, Activation::sigmoid);
}
template <Isa isa>
void run_tanh(const Call& call, Context& context) noexcept {
  run_activation<isa>(call, context, Activation::tanh);
}
void run_relu(const Call& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return x <= 0.0f ? 0.0f : x; });
}
void run_relu_sqr(const Call& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return x <= 0.0f ? 0.0f : x * x; });
}
constexpr Kernel kernels_activation[] = {
    QUERN_CPU_KERNELS(QUERN_OP_GELU, "gelu", accepts_any, run_gelu, nullptr, false),
    {QUERN_OP_RELU, "relu.portable", Isa::baseline, accepts_any, run_relu},
    {QUERN_OP_RELU_SQR, "relu_sqr.portable", Isa::baseline, accepts_any, run_relu_sqr},
    QUERN_CPU_KERNELS(QUERN_OP_SIGMOID, "sigmoid", accepts_any, run_sigmoid, nullptr, false),
    QUERN_CPU_KERNELS(QUERN_OP_TANH, "tanh", accepts_any, run_tanh, nullptr, false),
};

}  // namespace

const std::span<const Kernel> activation_kernels = kernels_activation;

}  // namespace quern::cpu
