// Activations and their slopes. Slopes are finite for every x but NaN: far from 0 a slope is its limit, and x is bounded there.
#define SILU 0
#define GELU_ERF 1
#define GELU_TANH 2
#define RELU 3
#define SIGMOID 4
#define GELU_QUICK 5
#define RELU_SQR 6
#define TANH 7

float bounded(float x, float most) { return x > most ? most : x < -most ? -most : x; }

/// 2^k times the activation, for k of 0 or, where it is below 2^-64, up to 64: a product with it then does not begin with what a driver may
/// flush to zero. `alpha` is that of silu.
float activate_times(int kind, float x, float alpha, int k) {
  if (is_nan(x)) return x;
  if (kind == SILU) return x == -INFINITY ? -0.0 : x * sigmoid_times(alpha * x, k);
  if (kind == RELU) return x > 0.0 ? scaled(x, k) : 0.0;
  if (kind == RELU_SQR) return x > 0.0 ? scaled(x, k) * x : 0.0;
  if (kind == SIGMOID) return sigmoid_times(x, k);
  if (kind == TANH) return scaled(tanh_of(x), k);
  if (x == -INFINITY) return 0.0;
  if (kind == GELU_ERF) return x * phi_times(x, k);
  if (kind == GELU_QUICK) return x * sigmoid_times(1.702 * x, k);
  return x * sigmoid_times(1.59576912 * (x + 0.044715 * x * x * x), k);  // (1 + tanh(z)) / 2 is sigmoid(2 z); 2 sqrt(2 / pi)
}
float activate(int kind, float x, float alpha) { return activate_times(kind, x, alpha, 0); }

/// 2^k s (1 - s).
float sigmoid_slope(float x, int k) {
  const float e = exp_of(-abs(x));
  return (k == 0 ? e : exp_times(-abs(x), k)) / ((1.0 + e) * (1.0 + e));
}
float silu_slope(float x, float alpha, int k) {
  const float z = bounded(alpha * x, 128.0);
  return sigmoid_times(z, k) * (1.0 + z * sigmoid_of(-z));
}
/// As activate_times, of the slope.
float slope_times(int kind, float x, float alpha, int k) {
  if (is_nan(x)) return x;
  if (kind == SILU) return silu_slope(x, alpha, k);
  if (kind == RELU) return x > 0.0 ? scaled(1.0, k) : 0.0;
  if (kind == RELU_SQR) return x > 0.0 ? scaled(2.0 * x, k) : 0.0;
  if (kind == SIGMOID) return sigmoid_slope(x, k);
  if (kind == TANH) return 4.0 * sigmoid_slope(2.0 * x, k);
  if (kind == GELU_QUICK) return silu_slope(x, 1.702, k);
  const float z = bounded(x, 30.0);
  if (kind == GELU_ERF) return phi_times(z, k) + z * 0.39894228 * exp_times(-0.5 * z * z, k);  // 1 / sqrt(2 pi)
  const float inner = 0.79788456 * z * (1.0 + 0.044715 * z * z);
  return sigmoid_times(2.0 * inner, k) + 2.0 * z * sigmoid_slope(2.0 * inner, k) * 0.79788456 * (1.0 + 0.134145 * z * z);
}
float slope(int kind, float x, float alpha) { return slope_times(kind, x, alpha, 0); }

const float tiny = 5.421010862427522e-20;  // 2^-64
/// activate(x) * y, and slope(x) * y * z, for factors that may be far below 2^-126 where the product is not.
float activate_and_scale(int kind, float x, float alpha, float y) {
  const float a = activate(kind, x, alpha);
  return abs(a) < tiny ? activate_times(kind, x, alpha, 64) * y * tiny : a * y;
}
float slope_and_scale(int kind, float x, float alpha, float y, float z) {
  const float a = slope(kind, x, alpha);
  if (!(abs(a) < tiny)) return z * y * a;
  const float part = slope_times(kind, x, alpha, 64) * y;
  return abs(part) > 1.0 ? part * tiny * z : part * z * tiny;
}
