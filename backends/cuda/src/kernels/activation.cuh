// Activations and their slopes in f32; the slope at an infinite x is its limit, at NaN it is NaN.
#pragma once
#include "prelude.cuh"

enum { GELU_ERF = 0, GELU_TANH = 1, GELU_QUICK = 2 };
#define INNER 0.79788456080286535588f  // sqrt(2 / pi)

DEV float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
DEV float silu(float x, float alpha = 1.0f) { return x == -INFINITY_F ? -0.0f : x * sigmoid(alpha * x); }
DEV float gelu(float x, int kind) {
  if (x == -INFINITY_F) return 0.0f;
  if (kind == GELU_ERF) return x * normcdff(x);
  if (kind == GELU_TANH) return 0.5f * x * (1.0f + tanhf(INNER * x * fmaf(0.044715f * x, x, 1.0f)));
  return x * sigmoid(1.702f * x);
}
DEV float relu(float x) { return x != x ? x : fmaxf(x, 0.0f); }

DEV bool is_infinite(float x) { return fabsf(x) == INFINITY_F; }
DEV float silu_slope(float x, float alpha = 1.0f) {
  if (is_infinite(x)) return x < 0.0f ? 0.0f : 1.0f;
  const float z = fminf(fmaxf(alpha * x, -128.0f), 128.0f);  // constant behind that
  return x != x ? x : sigmoid(z) * fmaf(z, sigmoid(-z), 1.0f);
}
DEV float gelu_slope(float x, int kind) {
  if (is_infinite(x)) return x < 0.0f ? 0.0f : 1.0f;
  if (kind == GELU_ERF) return fmaf(x * 0.39894228040143267794f, expf(-0.5f * x * x), normcdff(x));
  if (kind == GELU_QUICK) return silu_slope(x, 1.702f);
  const float t = tanhf(INNER * x * fmaf(0.044715f * x, x, 1.0f)), square = fmaf(-t, t, 1.0f);
  const float turn = 0.5f * INNER * x * fmaf(3.0f * 0.044715f * x, x, 1.0f);
  return 0.5f * (1.0f + t) + (square == 0.0f ? 0.0f : turn * square);
}
DEV float sigmoid_slope(float x) { return sigmoid(x) * sigmoid(-x); }
DEV float tanh_slope(float x) {
  const float t = tanhf(x);
  return fmaf(-t, t, 1.0f);
}
DEV float relu_slope(float x) { return x != x ? x : x > 0.0f ? 1.0f : 0.0f; }

enum { GLU_SILU = 0, GLU_GELU_ERF = 1, GLU_GELU_TANH = 2, GLU_RELU = 3, GLU_SIGMOID = 4 };
DEV float glu_value(float g, int kind, float alpha) {
  switch (kind) {
    case GLU_SILU: return silu(g, alpha);
    case GLU_GELU_ERF: return gelu(g, GELU_ERF);
    case GLU_GELU_TANH: return gelu(g, GELU_TANH);
    case GLU_RELU: return relu(g);
    default: return sigmoid(g);
  }
}
/// What a product applies where it makes its results.
DEV float activated(float x, int activation) {
  switch (activation) {
    case act_silu: return silu(x);
    case act_gelu_erf: return gelu(x, GELU_ERF);
    case act_gelu_tanh: return gelu(x, GELU_TANH);
    case act_gelu_quick: return gelu(x, GELU_QUICK);
    case act_relu: return relu(x);
    case act_sigmoid: return sigmoid(x);
    default: return x;
  }
}
/// That of gate. SwiGLU, which most models have, is written out; the others share one copy of their code.
__device__ __noinline__ float other_gate(float x, int activation) { return activated(x, activation); }
DEV float gate_value(float x, int activation) { return activation == act_silu ? SILU(x) : other_gate(x, activation); }
DEV float glu_slope(float g, int kind, float alpha) {
  switch (kind) {
    case GLU_SILU: return silu_slope(g, alpha);
    case GLU_GELU_ERF: return gelu_slope(g, GELU_ERF);
    case GLU_GELU_TANH: return gelu_slope(g, GELU_TANH);
    case GLU_RELU: return relu_slope(g);
    default: return sigmoid_slope(g);
  }
}
