#version 460
// y = x again and again; or y = x summed over its repeats, a workgroup an element. Constant 1: which.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "group.glsl"
layout(constant_id = 1) const int sums = 0;
STORED(RepeatParams)
#define p (ParamsAt(stored).params)

/// The place in the larger tensor of repeat r of element i of the smaller one.
uint64_t repeated(uint i, uint r) {
  uint64_t at = p.large.data;
  for (int d = p.rank - 1; d >= 0; --d) {
    const uint size = p.small_dims[d], repeats = p.large_dims[d] / size;
    at += uint64_t(p.large.stride[d] * int64_t(r % repeats * size + i % size));
    r /= repeats;
    i /= size;
  }
  return at;
}
uint64_t small_place(uint i) {
  uint64_t at = p.small.data;
  for (int d = p.rank - 1; d >= 0; --d) {
    at += uint64_t(p.small.stride[d] * int64_t(i % p.small_dims[d]));
    i /= p.small_dims[d];
  }
  return at;
}

void main() {
  if (sums != 0) {
    FOR_EACH_ROW(i, p.count) {
      float sum = 0.0;
      FOR_EACH_LANE(r, p.repeats) sum += load_float(repeated(i, r), p.large.dtype);
      sum = group_sum(sum);
      if (gl_LocalInvocationID.x == 0u) store_float(small_place(i), p.small.dtype, sum);
    }
  } else {
    FOR_EACH_ITEM(i, p.count * p.repeats)
      store_float(repeated(i % p.count, i / p.count), p.large.dtype, load_float(small_place(i % p.count), p.small.dtype));
  }
}
