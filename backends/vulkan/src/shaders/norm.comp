#version 460
// Norms of rows, a workgroup a row. Constant 1: 0 rms, 1 layer, 2 l2, 3 rms of a + b, whose sum is stored first.
//
// The mean of a layer norm is corrected once by the mean of what it leaves, so that a row far from 0 keeps its digits.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "modes.h"
#include "group.glsl"
layout(constant_id = 1) const int kind = 0;
STORED(NormParams)
#define p (ParamsAt(stored).params)

#define AT(base, view, i) (base + uint64_t(int64_t(i) * int64_t(view.step)))

void main() {
  FOR_EACH_ROW(row, p.rows.count) {
    ADDRESS(x, p.x, p.rows, row)
    ADDRESS(y, p.y, p.rows, row)
    int x_dtype = p.x.dtype, x_step = p.x.step;
    if (kind == norm_add_rms) {
      ADDRESS(b, p.b, p.rows, row)
      ADDRESS(sum, p.sum, p.rows, row)
      FOR_EACH_LANE(i, p.n)
        store_float(AT(sum, p.sum, i), p.sum.dtype, load_float(AT(x, p.x, i), p.x.dtype) + load_float(AT(b, p.b, i), p.b.dtype));
      x = sum;
      x_dtype = p.sum.dtype;
      x_step = p.sum.step;
    }
    float mean = 0.0, correction = 0.0, squares = 0.0;
    if (kind == norm_layer) {
      FOR_EACH_LANE(i, p.n) mean += load_float(x + uint64_t(int64_t(i) * int64_t(x_step)), x_dtype);
      mean = group_sum(mean) / float(p.n);
      FOR_EACH_LANE(i, p.n) correction += load_float(x + uint64_t(int64_t(i) * int64_t(x_step)), x_dtype) - mean;
      correction = group_sum(correction) / float(p.n);
    }
    FOR_EACH_LANE(i, p.n) {
      const float v = load_float(x + uint64_t(int64_t(i) * int64_t(x_step)), x_dtype) - mean - correction;
      squares += v * v;
    }
    squares = group_sum(squares);
    float divisor = sqrt(squares / float(p.n) + p.epsilon);
    if (kind == norm_l2) {
      const float length = sqrt(squares);
      divisor = length < p.epsilon ? p.epsilon : length;
    }
    FOR_EACH_LANE(i, p.n) {
      float v = (load_float(x + uint64_t(int64_t(i) * int64_t(x_step)), x_dtype) - mean - correction) / divisor;
      if (p.weight != 0ul) v *= Float(p.weight + uint64_t(i) * 4ul).v + p.offset;
      if (p.bias != 0ul) v += Float(p.bias + uint64_t(i) * 4ul).v;
      store_float(AT(y, p.y, i), p.y.dtype, v);
    }
  }
}
