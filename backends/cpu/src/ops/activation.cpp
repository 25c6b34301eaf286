// gelu, relu, relu_sqr, sigmoid and tanh with the C library's functions. -inf becomes 0 where the limit is 0; NaN stays NaN.
#include "map_rows.hpp"

#include "../error.hpp"

#include <cmath>
#include <limits>

namespace quern::cpu {
namespace {

enum { gelu_erf = 0, gelu_tanh = 1, gelu_quick = 2 };

Verdict accepts_gelu(const OpCall& call) {
  if (const std::int64_t kind = call.integer(QUERN_KEY_KIND); kind < gelu_erf || kind > gelu_quick)
    return Verdict::no(concat("kind is ", kind, "; gelu has kinds 0 to 2"));
  return check_map(call);
}

/// The side of exp() that cannot overflow, so that a small result keeps its digits.
float sigmoid(float x) noexcept {
  const float e = std::exp(-std::fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/// x * f(x), where f falls to 0 faster than x grows.
template <typename F>
void run_gated(const OpCall& call, Context& context, const F& f) noexcept {
  map_elements(call.input(0), call.output(0), context,
               [&f](float x) { return x == -std::numeric_limits<float>::infinity() ? 0.0f : x * f(x); });
}

void run_gelu(const OpCall& call, Context& context) noexcept {
  switch (call.integer(QUERN_KEY_KIND)) {
    case gelu_quick: return run_gated(call, context, [](float x) { return sigmoid(1.702f * x); });
    case gelu_tanh:  // sqrt(2 / pi) = 0.79788456
      return run_gated(call, context, [](float x) { return 0.5f * (1.0f + std::tanh(0.79788456f * (x + 0.044715f * x * x * x))); });
    default: return run_gated(call, context, [](float x) { return 0.5f * (1.0f + std::erf(x * 0.70710678f)); });
  }
}
void run_relu(const OpCall& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return x <= 0.0f ? 0.0f : x; });
}
void run_relu_sqr(const OpCall& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return x <= 0.0f ? 0.0f : x * x; });
}
void run_sigmoid(const OpCall& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return sigmoid(x); });
}
void run_tanh(const OpCall& call, Context& context) noexcept {
  map_elements(call.input(0), call.output(0), context, [](float x) { return std::tanh(x); });
}

constexpr Kernel kernels_activation[] = {
    {QUERN_OP_GELU, "gelu.portable", Isa::baseline, accepts_gelu, run_gelu},
    {QUERN_OP_RELU, "relu.portable", Isa::baseline, check_map, run_relu},
    {QUERN_OP_RELU_SQR, "relu_sqr.portable", Isa::baseline, check_map, run_relu_sqr},
    {QUERN_OP_SIGMOID, "sigmoid.portable", Isa::baseline, check_map, run_sigmoid},
    {QUERN_OP_TANH, "tanh.portable", Isa::baseline, check_map, run_tanh},
};

}  // namespace

const std::span<const Kernel> activation_kernels = kernels_activation;

}  // namespace quern::cpu
