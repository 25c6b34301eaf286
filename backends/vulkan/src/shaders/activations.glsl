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

/// `alpha` is that of silu.
float activate(int kind, float x, float alpha) {
  if (is_nan(x)) return x;
  if (kind == SILU) return x == -INFINITY ? -0.0 : x * sigmoid_of(alpha * x);
  if (kind == RELU) return x > 0.0 ? x : 0.0;
  if (kind == RELU_SQR) return x > 0.0 ? x * x : 0.0;
  if (kind == SIGMOID) return sigmoid_of(x);
  if (kind == TANH) return tanh_of(x);
  if (x == -INFINITY) return 0.0;
  if (kind == GELU_ERF) return x * phi_of(x);
  if (kind == GELU_QUICK) return x * sigmoid_of(1.702 * x);
  return x * sigmoid_of(1.59576912 * (x + 0.044715 * x * x * x));  // (1 + tanh(z)) / 2 is sigmoid(2 z); 2 sqrt(2 / pi)
}

/// s (1 - s).
float sigmoid_slope(float x) {
  const float e = exp_of(-abs(x));
  return e / ((1.0 + e) * (1.0 + e));
}
float silu_slope(float x, float alpha) {
  const float z = bounded(alpha * x, 128.0);
  return sigmoid_of(z) * (1.0 + z * sigmoid_of(-z));
}
float slope(int kind, float x, float alpha) {
  if (is_nan(x)) return x;
  if (kind == SILU) return silu_slope(x, alpha);
  if (kind == RELU) return x > 0.0 ? 1.0 : 0.0;
  if (kind == RELU_SQR) return x > 0.0 ? 2.0 * x : 0.0;
  if (kind == SIGMOID) return sigmoid_slope(x);
  if (kind == TANH) return 4.0 * sigmoid_slope(2.0 * x);
  if (kind == GELU_QUICK) return silu_slope(x, 1.702);
  const float z = bounded(x, 30.0);
  if (kind == GELU_ERF) return phi_of(z) + z * 0.39894228 * exp_of(-0.5 * z * z);  // 1 / sqrt(2 pi)
  const float inner = 0.79788456 * z * (1.0 + 0.044715 * z * z);
  return sigmoid_of(2.0 * inner) + 2.0 * z * sigmoid_slope(2.0 * inner) * 0.79788456 * (1.0 + 0.134145 * z * z);
}
