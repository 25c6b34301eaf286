// Activations, gated ones, and their gradients, over any strides: one thread an element.
#include "activation.cuh"
#include "elementwise.hpp"
#include "strided.cuh"

enum {
  SILU_OP = 20,
  GELU_OP = 21,
  RELU_OP = 22,
  RELU_SQR_OP = 23,
  SIGMOID_OP = 24,
  SILU_BACKWARD = 27,
  GELU_BACKWARD = 28,
  RELU_BACKWARD = 29,
  RELU_SQR_BACKWARD = 30,
  SIGMOID_BACKWARD = 31
};

KERNEL(256) activation(const __grid_constant__ UnaryParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.shape.count) {
    const float x = load_place(p.x, p.shape, i);
    float y;
    switch (p.op) {
      case SILU_OP: y = silu(x); break;
      case GELU_OP: y = gelu(x, (int)p.a); break;
      case RELU_OP: y = relu(x); break;
      case RELU_SQR_OP: y = relu(x) * relu(x); break;
      case SIGMOID_OP: y = sigmoid(x); break;
      default: y = tanhf(x); break;
    }
    store_place(p.y, p.shape, i, y);
  }
}

KERNEL(256) activation_backward(const __grid_constant__ ActivationBackwardParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.shape.count) {
    const float x = load_place(p.x, p.shape, i), dy = load_place(p.dy, p.shape, i);
    float dx;
    switch (p.op) {
      case SILU_BACKWARD: dx = dy * silu_slope(x); break;
      case GELU_BACKWARD: dx = dy * gelu_slope(x, p.kind); break;
      case RELU_BACKWARD: dx = x > 0.0f ? dy : 0.0f; break;
      case RELU_SQR_BACKWARD: dx = 2.0f * (relu(x) * dy); break;
      case SIGMOID_BACKWARD: dx = dy * sigmoid_slope(x); break;
      default: dx = dy * tanh_slope(x); break;
    }
    store_place(p.dx, p.shape, i, dx);
  }
}

KERNEL(256) glu(const __grid_constant__ GluParams p) {
  wait_for_inputs();
  const bool limited = p.limit < INFINITY_F;
  FOR_EACH(i, p.shape.count) {
    float gate = load_place(p.gate, p.shape, i), up = load_place(p.up, p.shape, i);
    if (limited) {
      gate = gate != gate ? gate : fminf(gate, p.limit);
      up = (up != up ? up : fminf(fmaxf(up, -p.limit), p.limit)) + 1.0f;
    }
    store_place(p.y, p.shape, i, glu_value(gate, p.kind, p.alpha) * up);
  }
}

KERNEL(256) glu_backward(const __grid_constant__ GluBackwardParams p) {
  wait_for_inputs();
  const bool limited = p.limit < INFINITY_F;
  FOR_EACH(i, p.shape.count) {
    float gate = load_place(p.gate, p.shape, i), up = load_place(p.up, p.shape, i);
    const float dy = load_place(p.dy, p.shape, i);
    const bool gate_cut = limited && gate > p.limit, up_cut = limited && fabsf(up) > p.limit;
    if (gate_cut) gate = p.limit;
    if (limited) up = (up != up ? up : fminf(fmaxf(up, -p.limit), p.limit)) + 1.0f;
    if (p.dgate.data) store_place(p.dgate, p.shape, i, gate_cut ? 0.0f : dy * (up * glu_slope(gate, p.kind, p.alpha)));
    if (p.dup.data) store_place(p.dup, p.shape, i, up_cut ? 0.0f : dy * glu_value(gate, p.kind, p.alpha));
  }
}
