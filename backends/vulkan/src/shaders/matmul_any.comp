#version 460
// Products of floats under any strides and transposes: an invocation an output, the sum in the order of k, in blocks of 64.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
STORED(MatmulParams)
#define p (ParamsAt(stored).params)

void main() {
  for (uint z = gl_WorkGroupID.z; z < p.batch; z += gl_NumWorkGroups.z) {
    uint64_t a = p.a, b = p.b, c = p.c, y = p.y;
    uint rest = z;
    for (int d = 3; d >= 0; --d) {
      const uint i = rest % p.batch_dims[d];
      rest /= p.batch_dims[d];
      a += uint64_t(p.a_batch[d] * int64_t(i));
      b += uint64_t(p.b_batch[d] * int64_t(i / p.group[d]));
      c += uint64_t(p.c_batch[d] * int64_t(i));
      y += uint64_t(p.y_batch[d] * int64_t(i));
    }
    FOR_EACH_ITEM(item, p.m * p.n) {
      const uint i = item / p.n, j = item % p.n;
      const uint64_t a_row = a + uint64_t(p.a_row * int64_t(i)), b_row = b + uint64_t(p.b_row * int64_t(j));
      float total = 0.0;
      for (uint begin = 0u; begin < p.k; begin += 64u) {
        float sum = 0.0;
        for (uint k = begin; k < min(p.k, begin + 64u); ++k)
          sum = fma(load_float(a_row + uint64_t(int64_t(k) * p.a_step), p.a_dtype), load_float(b_row + uint64_t(int64_t(k) * p.b_step), p.b_dtype), sum);
        total += sum;
      }
      float v = p.alpha * total;
      if (p.bias != 0ul) v += load_float(p.bias + uint64_t(j) * uint64_t(p.bias_step), p.bias_dtype);
      if (p.c != 0ul) v += p.beta * load_float(c + uint64_t(p.c_row * int64_t(i)) + uint64_t(j) * uint64_t(p.c_step), p.c_dtype);
      store_float(y + uint64_t(p.y_row * int64_t(i)) + uint64_t(j) * uint64_t(p.y_step), p.y_dtype, v);
    }
  }
}
