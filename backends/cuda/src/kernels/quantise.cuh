// One warp's 32 values to int8.
#pragma once
#include "prelude.cuh"

/// `group` counts groups of 32 over all rows.
DEV void quantise32(float x, const Activations& out, i64 group, int lane) {
  const float most = warp_max(fabsf(x));
  const float scale = most / 127.0f;
  const int q = most > 0.0f ? __float2int_rn(x * (127.0f / most)) : 0;
  at<i8>(out.codes)[group * 32 + lane] = (i8)q;
  int sum = q;
#pragma unroll
  for (int o = 8; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);  // of 16 lanes
  const int other = __shfl_xor_sync(~0u, sum, 16);
  if (lane == 0) at<float4>(out.meta)[group] = make_float4(scale, scale * (float)sum, scale * (float)other, scale * (float)(sum + other));
}
