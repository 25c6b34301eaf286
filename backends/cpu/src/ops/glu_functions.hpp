// The activations of glu.
#pragma once

#include "../simd/vectors.hpp"

#include <cmath>
#include <cstdint>

namespace quern::cpu {

/// f(x) of a kind; alpha is that of silu.
inline float glu_activate(std::int64_t kind, float x, float alpha) noexcept {
  switch (kind) {
    case glu_gelu_erf: return std::isinf(x) && x < 0 ? 0.0f : 0.5f * x * (1.0f + std::erf(x * 0.70710678f));
    case glu_gelu_tanh: return std::isinf(x) && x < 0 ? 0.0f : 0.5f * x * (1.0f + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
    case glu_relu: return x > 0.0f || std::isnan(x) ? x : 0.0f;
    case glu_sigmoid: return 1.0f / (1.0f + std::exp(-x));
    default: return (std::isinf(x) && x < 0 ? -0.0f : x / (1.0f + std::exp(-alpha * x)));
  }
}

}  // namespace quern::cpu
