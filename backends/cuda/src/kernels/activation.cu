// Activations, gated ones, and their gradients, over any strides: one thread an element, or eight neighbours where every operand has them side by
// side.
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
    float v[wide_step];
    load_step(p.x, p.shape, i, v);
    EACH_OF_STEP(e, p.shape) {
      const float x = v[e];
      switch (p.op) {
        case SILU_OP: v[e] = silu(x); break;
        case GELU_OP: v[e] = gelu(x, (int)p.a); break;
        case RELU_OP: v[e] = relu(x); break;
        case RELU_SQR_OP: v[e] = relu(x) * relu(x); break;
        case SIGMOID_OP: v[e] = sigmoid(x); break;
        default: v[e] = tanhf(x); break;
      }
    }
    store_step(p.y, p.shape, i, v);
  }
}

KERNEL(256) activation_backward(const __grid_constant__ ActivationBackwardParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.shape.count) {
    float xs[wide_step], gradient[wide_step];
    load_step(p.x, p.shape, i, xs);
    load_step(p.dy, p.shape, i, gradient);
    EACH_OF_STEP(e, p.shape) {
      const float x = xs[e], dy = gradient[e];
      switch (p.op) {
        case SILU_BACKWARD: gradient[e] = dy * silu_slope(x); break;
        case GELU_BACKWARD: gradient[e] = dy * gelu_slope(x, p.kind); break;
        case RELU_BACKWARD: gradient[e] = x > 0.0f ? dy : 0.0f; break;
        case RELU_SQR_BACKWARD: gradient[e] = 2.0f * (relu(x) * dy); break;
        case SIGMOID_BACKWARD: gradient[e] = dy * sigmoid_slope(x); break;
        default: gradient[e] = dy * tanh_slope(x); break;
      }
    }
    store_step(p.dx, p.shape, i, gradient);
  }
}

KERNEL(256) glu(const __grid_constant__ GluParams p) {
  wait_for_inputs();
  const bool limited = p.limit < INFINITY_F;
  FOR_EACH(i, p.shape.count) {
    float gates[wide_step], ups[wide_step];
    load_step(p.gate, p.shape, i, gates);
    load_step(p.up, p.shape, i, ups);
    EACH_OF_STEP(e, p.shape) {
      float gate = gates[e], up = ups[e];
      if (limited) {
        gate = gate != gate ? gate : fminf(gate, p.limit);
        up = (up != up ? up : fminf(fmaxf(up, -p.limit), p.limit)) + 1.0f;
      }
      gates[e] = glu_value(gate, p.kind, p.alpha) * up;
    }
    store_step(p.y, p.shape, i, gates);
  }
}

KERNEL(256) glu_backward(const __grid_constant__ GluBackwardParams p) {
  wait_for_inputs();
  const bool limited = p.limit < INFINITY_F;
  FOR_EACH(i, p.shape.count) {
    float gates[wide_step], ups[wide_step], gradient[wide_step];
    load_step(p.gate, p.shape, i, gates);
    load_step(p.up, p.shape, i, ups);
    load_step(p.dy, p.shape, i, gradient);
    EACH_OF_STEP(e, p.shape) {
      float gate = gates[e], up = ups[e];
      const float dy = gradient[e];
      const bool gate_cut = limited && gate > p.limit, up_cut = limited && fabsf(up) > p.limit;
      if (gate_cut) gate = p.limit;
      if (limited) up = (up != up ? up : fminf(fmaxf(up, -p.limit), p.limit)) + 1.0f;
      gates[e] = gate_cut ? 0.0f : dy * (up * glu_slope(gate, p.kind, p.alpha));
      ups[e] = up_cut ? 0.0f : dy * glu_value(gate, p.kind, p.alpha);
    }
    if (p.dgate.data) store_step(p.dgate, p.shape, i, gates);
    if (p.dup.data) store_step(p.dup, p.shape, i, ups);
  }
}
