#version 460
// Running sums along rows, a workgroup a row: each lane sums a stretch of the row, then starts at the sum of the stretches before.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
STORED(RowParams)
#define p (ParamsAt(stored).params)
shared float part[1024];

void main() {
  const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
  const uint share = (p.n + lanes - 1u) / lanes, begin = min(p.n, lane * share), end = min(p.n, begin + share);
  FOR_EACH_ROW(row, p.rows.count) {
    ADDRESS(x, p.x, p.rows, row)
    ADDRESS(y, p.y, p.rows, row)
    float sum = 0.0;
    for (uint i = begin; i < end; ++i) sum += load_float(x + uint64_t(int64_t(i) * int64_t(p.x.step)), p.x.dtype);
    part[lane] = sum;
    barrier();
    sum = 0.0;
    for (uint l = 0u; l < lane; ++l) sum += part[l];
    barrier();
    for (uint i = begin; i < end; ++i) {
      sum += load_float(x + uint64_t(int64_t(i) * int64_t(p.x.step)), p.x.dtype);
      store_float(y + uint64_t(int64_t(i) * int64_t(p.y.step)), p.y.dtype, sum);
    }
  }
}
