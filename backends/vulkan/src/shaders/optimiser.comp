#version 460
// One step of AdamW or SGD, an invocation an element. Constant 1: SGD. Source: Loshchilov and Hutter 2017 (arXiv:1711.05101).
//
// (1 - beta2) g comes before its product with g, and the root of v before its correction: a gradient of 1e20 stays in range. `precise`:
// NVIDIA's driver 580 multiplies g by g first where it may.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "math.glsl"
layout(constant_id = 1) const int plain = 0;
STORED(OptimiserParams)
#define p (ParamsAt(stored).params)

/// 1 - e^x for x <= 0, whose digits near 0 are kept.
float one_less_exp(float x) {
  if (x < -0.5) return 1.0 - exp_of(x);
  float s = 1.0;
  for (int i = 9; i > 1; --i) s = 1.0 + x / float(i) * s;
  return -x * s;
}

void adamw(uint i, float g, float lr, int step) {
  const float steps = float(step);
  const float rate = lr / one_less_exp(steps * p.log_beta1), root = 1.0 / sqrt(one_less_exp(steps * p.log_beta2)), decay = lr * p.weight_decay;
  ADDRESS(at_w, p.w, p.shape, i)
  ADDRESS(at_m, p.m, p.shape, i)
  ADDRESS(at_v, p.v, p.shape, i)
  const float m = p.beta1 * Float(at_m).v + p.rest1 * g;
  precise const float part = p.rest2 * g;
  precise const float v = p.beta2 * Float(at_v).v + part * g;
  Float(at_m).v = m;
  Float(at_v).v = v;
  uint64_t exact = at_w;
  int dtype = p.w.dtype;
  if (p.master.data != 0ul) {
    ADDRESS(at_master, p.master, p.shape, i)
    exact = at_master;
    dtype = F32;
  }
  const float before = load_float(exact, dtype);
  const float w = (before - decay * before) - rate * m / (sqrt(v) * root + p.epsilon);
  store_float(exact, dtype, w);
  if (p.master.data != 0ul) store_float(at_w, p.w.dtype, w);
}

void sgd(uint i, float g, float lr) {
  ADDRESS(at_w, p.w, p.shape, i)
  if (p.m.data != 0ul) {
    ADDRESS(at_m, p.m, p.shape, i)
    if (p.momentum != 0.0) g += p.momentum * load_float(at_m, p.m.dtype);
    store_float(at_m, p.m.dtype, g);
  }
  const float w = load_float(at_w, p.w.dtype);
  if (p.weight_decay != 0.0) g += p.weight_decay * w;
  store_float(at_w, p.w.dtype, w - lr * g);
}

void main() {
  const float lr = Float(p.lr).v, scale = p.scale == 0ul ? 1.0 : Float(p.scale).v;
  int step = 1;
  if (plain == 0) {
    step = Int(p.step).v;
    if (step < 1) {  // no bias correction: nothing is written
      if (gl_GlobalInvocationID.x == 0u) raise(p.faults, FAULT_NON_FINITE);
      return;
    }
  }
  FOR_EACH_ITEM(i, p.shape.count) {
    if (!row_live(p.predicate, i / p.items_a_row)) continue;
    ADDRESS(at, p.gradient, p.shape, i)
    const float g = load_float(at, p.gradient.dtype) * scale;
    if (plain == 0) adamw(i, g, lr, step);
    else sgd(i, g, lr);
  }
}
