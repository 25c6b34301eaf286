#version 460
// y = f(gate) * up; or, backward, dgate = dy * up * f'(gate) and dup = dy * f(gate). Constant 1: the kind; constant 2: backward.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "math.glsl"
#include "activations.glsl"
layout(constant_id = 1) const int kind = 0;
layout(constant_id = 2) const int backward = 0;
STORED(GluParams)
#define p (ParamsAt(stored).params)

void main() {
  FOR_EACH_ITEM(i, p.shape.count) {
    ADDRESS(at_gate, p.gate, p.shape, i)
    ADDRESS(at_up, p.up, p.shape, i)
    ADDRESS(at_y, p.y, p.shape, i)
    float gate = load_float(at_gate, p.gate.dtype), up = load_float(at_up, p.up.dtype);
    bool gate_cut = false, up_cut = false;
    if (p.limited != 0) {
      gate_cut = gate > p.limit;
      up_cut = abs(up) > p.limit;
      gate = gate_cut ? p.limit : gate;
      up = bounded(up, p.limit) + 1.0;
    }
    const float alpha = p.limited != 0 ? p.alpha : 1.0;
    if (backward == 0) {
      store_float(at_y, p.y.dtype, activate_and_scale(kind, gate, alpha, up));
    } else {
      ADDRESS(at_dgate, p.dgate, p.shape, i)
      const float dy = load_float(at_y, p.y.dtype);
      store_float(at_dgate, p.dgate.dtype, gate_cut ? 0.0 : slope_and_scale(kind, gate, alpha, up, dy));
      if (p.dup.data != 0ul) {
        ADDRESS(at_dup, p.dup, p.shape, i)
        store_float(at_dup, p.dup.dtype, up_cut ? 0.0 : activate_and_scale(kind, gate, alpha, dy));
      }
    }
  }
}
