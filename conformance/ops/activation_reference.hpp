// The activations and their slopes in f64, with how far f32 arithmetic may be from them.
#pragma once

#include "reference/expected.hpp"

namespace quern::conformance {

enum class Activation { silu, gelu_erf, gelu_tanh, gelu_quick, relu, relu_sqr, sigmoid, tanh };

struct CurvePoint {
  double value;  // f(x) or f'(x); at an infinite x the limit, at NaN NaN
  double bound;  // of f32 arithmetic, before the rounding of the store
};

/// f(x). `alpha` is silu's: x sigmoid(alpha x).
CurvePoint activation_value(Activation kind, double x, double alpha = 1.0);
/// f'(x). relu's is 0 at 0.
CurvePoint activation_slope(Activation kind, double x, double alpha = 1.0);

}  // namespace quern::conformance
