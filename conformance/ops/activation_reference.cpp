// See activation_reference.hpp.
//
// Bounds, u = 2^-24. They grant what Vulkan and OpenCL grant for exp (3 + 2|x| ulp), a division (2.5 ulp) and tanh (5 ulp), and an ulp is
// at most 2 u of its number. What is capped at some |x| is so because f32 has reached the limit there, however it is computed.
//
//   sigmoid     s = 1 / (1 + e), e = exp(-x) (1 + d): s moves by s (1 - s) d, and 6 u s for the addition and the division.
//               Where exp(-x) is beyond f32, s ends at 0: |x| 2^-100 more.
//   tanh        5 ulp
//   silu        (8 + 2 |x|) ulp and that floor (ops/silu.cpp)
//   gelu        16 u |x|; naive f32: 2.4 u |x| measured. Below -16 all kinds but the quick one are 0, that one 2e-12
//   slopes      s (1 - s): twice sigmoid's and 4 u s, for 1 - s may be a subtraction
//               1 - t^2: 2 |t| times the 10 u |t| of tanh, 2 u for the subtraction
//               s (1 + z (1 - s)), z = alpha x: s by its error times 1 + |z| (1 - s); 1 - s by sigmoid's error and 2 u times s |z|, for
//               |z| < 32 where it is not 0 yet; 4 u for the roundings
//               gelu erf, Phi(x) + x phi(x): 16 u; exp(-x^2/2) within 6 + 2 x^2 u, times x phi(x), is at most 2 u
//               gelu tanh, (1 + t) / 2 + x (1 - t^2) c (1 + 3 k x^2) / 2: the error of t is 10 u |t| and (1 - t^2) |inner| 4 u
#include "ops/activation_reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace quern::conformance {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double sigmoid(double x) { return x >= 0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x)); }

double sigmoid_bound(double x) {
  const double s = sigmoid(x), size = std::min(std::fabs(x), 128.0);
  return s * sigmoid(-x) * (3.0 + 2.0 * size) * 2.0 * u32 + 6.0 * u32 * s + size * 0x1p-100;
}

double tanh_inner(double x) { return std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x); }
/// 1 + tanh(z), which keeps its digits below 0.
double one_plus_tanh(double z) { return 2.0 * sigmoid(2.0 * z); }
/// 1 - tanh(z)^2.
double tanh_slope(double z) { return 4.0 * sigmoid(2.0 * z) * sigmoid(-2.0 * z); }

/// The limits at -infinity and infinity.
CurvePoint limits(double x, double low, double high) { return {std::isnan(x) ? x : x < 0 ? low : high, 0.0}; }

double gelu_bound(double x) { return 16.0 * u32 * (x > 0 ? x : std::min(-x, 16.0)); }

CurvePoint silu_slope(double beyond) {
  const double z = std::clamp(beyond, -128.0, 128.0);  // 0 or 1 behind that
  const double s = sigmoid(z), t = sigmoid(-z), bound = sigmoid_bound(z), part = 1.0 + std::fabs(z) * t;
  return {s * (1.0 + z * t), bound * part + s * std::min(std::fabs(z), 32.0) * (bound + 2.0 * u32) + 4.0 * u32 * s * part};
}

CurvePoint gelu_tanh_slope(double x) {
  const double inner = tanh_inner(x), square = tanh_slope(inner),
               turn = 0.5 * x * std::sqrt(2.0 / std::numbers::pi) * (1.0 + 3.0 * 0.044715 * x * x);
  const double near = std::fabs(x) < 8.0 ? 1.0 : 0.0;  // 1 - t^2 is below e^-45 beyond
  const double t_error = near * (10.0 * u32 + square * std::fabs(inner) * 4.0 * u32);
  const double bound = 0.5 * t_error + near * std::fabs(turn) * (2.0 * t_error + 2.0 * u32 + 4.0 * u32 * square) + 8.0 * u32;
  return {0.5 * one_plus_tanh(inner) + (square == 0.0 ? 0.0 : turn * square), bound};
}

}  // namespace

CurvePoint activation_value(Activation kind, double x, double alpha) {
  const bool finite = std::isfinite(x);
  switch (kind) {
    case Activation::silu: {
      if (!finite) return limits(x, -0.0, infinity);
      const double r = x * sigmoid(alpha * x), size = std::min(std::fabs(alpha * x), 128.0);
      return {r, (8.0 + 2.0 * size) * 2.0 * u32 * std::fabs(r) + std::min(std::fabs(x), 128.0) * 0x1p-100};
    }
    case Activation::gelu_erf:
      if (!finite) return limits(x, 0.0, infinity);
      return {0.5 * x * std::erfc(-x / std::numbers::sqrt2), gelu_bound(x)};
    case Activation::gelu_tanh:
      if (!finite) return limits(x, 0.0, infinity);
      return {0.5 * x * one_plus_tanh(tanh_inner(x)), gelu_bound(x)};
    case Activation::gelu_quick:
      if (!finite) return limits(x, 0.0, infinity);
      return {x * sigmoid(1.702 * x), gelu_bound(x)};
    case Activation::relu: return {std::isnan(x) ? x : std::max(x, 0.0), 0.0};
    case Activation::relu_sqr: return {std::isnan(x) ? x : x > 0 ? x * x : 0.0, 0.0};
    case Activation::sigmoid:
      if (!finite) return limits(x, 0.0, 1.0);
      return {sigmoid(x), sigmoid_bound(x)};
    case Activation::tanh:
      if (!finite) return limits(x, -1.0, 1.0);
      return {std::tanh(x), 10.0 * u32 * std::fabs(std::tanh(x)) + 0x1p-149};  // 5 ulp, an ulp of a subnormal too
  }
  return {std::numeric_limits<double>::quiet_NaN(), 0.0};
}

CurvePoint activation_slope(Activation kind, double x, double alpha) {
  const bool finite = std::isfinite(x);
  switch (kind) {
    case Activation::silu:
      if (!finite) return limits(x, 0.0, 1.0);
      return silu_slope(alpha * x);
    case Activation::gelu_erf:
      if (!finite) return limits(x, 0.0, 1.0);
      return {0.5 * std::erfc(-x / std::numbers::sqrt2) + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi), 16.0 * u32};
    case Activation::gelu_tanh:
      if (!finite) return limits(x, 0.0, 1.0);
      return gelu_tanh_slope(x);
    case Activation::gelu_quick: {
      if (!finite) return limits(x, 0.0, 1.0);
      const CurvePoint p = silu_slope(1.702 * x);
      return {p.value, p.bound + 4.0 * u32};  // 1.702 in f32
    }
    case Activation::relu: return {std::isnan(x) ? x : x > 0 ? 1.0 : 0.0, 0.0};
    case Activation::relu_sqr: return {std::isnan(x) ? x : x > 0 ? 2.0 * x : 0.0, 0.0};
    case Activation::sigmoid:
      if (!finite) return limits(x, 0.0, 0.0);
      return {sigmoid(x) * sigmoid(-x), 2.0 * sigmoid_bound(x) + 4.0 * u32 * sigmoid(x)};
    case Activation::tanh: {
      if (!finite) return limits(x, 0.0, 0.0);
      const double t = std::tanh(x);
      return {tanh_slope(x), 20.0 * u32 * t * t + 2.0 * u32};
    }
  }
  return {std::numeric_limits<double>::quiet_NaN(), 0.0};
}

}  // namespace quern::conformance
