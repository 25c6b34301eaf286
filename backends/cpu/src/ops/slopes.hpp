// Derivatives of the activations in f32, finite for every x but NaN, which stays.
//
// Far from 0 a slope is its limit, and x is bounded there: infinity times 0 would be NaN. 1 - s and 1 - t^2 are computed from
// exp(-|x|), so that a small slope keeps its digits.
#pragma once

#include "glu_functions.hpp"

#include <algorithm>

namespace quern::cpu {

/// A NaN stays.
inline float bounded(float x, float most) noexcept { return x > most ? most : x < -most ? -most : x; }

/// The side of exp() that cannot overflow, so that a small result keeps its digits.
inline float sigmoid_of(float x) noexcept {
  const float e = std::exp(-std::fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
/// s (1 - s).
inline float sigmoid_slope(float x) noexcept {
  const float e = std::exp(-std::fabs(x));
  return e / ((1.0f + e) * (1.0f + e));
}
/// 1 - tanh(x)^2.
inline float tanh_slope(float x) noexcept { return 4.0f * sigmoid_slope(2.0f * x); }

/// Of x sigmoid(alpha x), a finite alpha: beyond |alpha x| = 128 it is 0 or 1.
inline float silu_slope(float x, float alpha) noexcept {
  const float z = bounded(alpha * x, 128.0f);
  return sigmoid_of(z) * (1.0f + z * sigmoid_of(-z));
}
/// Of x Phi(x); Phi by erfc, which keeps the digits of the lower tail.
inline float gelu_erf_slope(float x) noexcept {
  const float z = bounded(x, 30.0f);
  return 0.5f * std::erfc(z * -0.70710678f) + z * 0.39894228f * std::exp(-0.5f * z * z);  // 1 / sqrt(2 pi)
}
/// Of 0.5 x (1 + tanh(c (x + 0.044715 x^3))), c = sqrt(2 / pi).
inline float gelu_tanh_slope(float x) noexcept {
  const float z = bounded(x, 30.0f), square = z * z;
  const float inner = 0.79788456f * z * (1.0f + 0.044715f * square);
  return sigmoid_of(2.0f * inner) + 0.5f * z * tanh_slope(inner) * 0.79788456f * (1.0f + 0.134145f * square);
}
inline float gelu_quick_slope(float x) noexcept { return silu_slope(x, 1.702f); }

/// Derivative of glu_activate.
inline float glu_slope(std::int64_t kind, float x, float alpha) noexcept {
  switch (kind) {
    case glu_gelu_erf: return gelu_erf_slope(x);
    case glu_gelu_tanh: return gelu_tanh_slope(x);
    case glu_relu: return std::isnan(x) ? x : x > 0.0f ? 1.0f : 0.0f;
    case glu_sigmoid: return sigmoid_slope(x);
    default: return silu_slope(x, alpha);
  }
}

}  // namespace quern::cpu
