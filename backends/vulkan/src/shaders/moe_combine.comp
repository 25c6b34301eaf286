#version 460
// y[t] = sum over u of weight[t][u] * x[t][u], in the order of u; an invocation an element.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
PUSHED(CombineParams)

void main() {
  FOR_EACH_ITEM(item, p.rows * p.n) {
    const uint t = item / p.n, c = item % p.n;
    if (!row_live(p.predicate, t)) continue;
    float sum = 0.0;
    for (uint u = 0u; u < p.used; ++u) {
      const float w = Float(p.weight + uint64_t(t * p.used + u) * 4ul).v;
      sum += w * load_float(p.x + uint64_t(int64_t(t) * p.x_row + int64_t(u) * p.x_used + int64_t(c) * int64_t(p.x_step)), p.x_dtype);
    }
    store_float(p.y + uint64_t(int64_t(t) * p.y_row + int64_t(c) * int64_t(p.y_step)), p.y_dtype, sum);
  }
}
