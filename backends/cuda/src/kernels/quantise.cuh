// One warp's 32 values as codes with a scale.
#pragma once
#include "prelude.cuh"

/// `group` counts groups of 32 over all rows.
DEV void quantise32(float x, const Activations& out, i64 group, int lane) {
  const float most = warp_max(fabsf(x));
  if (out.dtype) {
    const u32 exponent = __float_as_uint(most) & 0x7f800000u;  // codes below 2: no overflow in f16, whatever the values
    const float power = exponent ? __uint_as_float(exponent) : 1.0f, code = x / power;
    at<u16>(out.codes)[group * 32 + lane] = out.dtype == F16 ? to_half(code) : to_bf16(code);
    if (lane == 0) at<float2>(out.meta)[group] = make_float2(power, 0.0f);
    return;
  }
  const float scale = __any_sync(~0u, x != x) ? NOT_A_NUMBER : most / 127.0f;  // warp_max leaves a NaN out; of an infinity the scale is infinite
  const int q = most > LEAST_CODED ? __float2int_rn(x * (127.0f / most)) : 0;
  at<i8>(out.codes)[group * 32 + lane] = (i8)q;
  int sum = q;
#pragma unroll
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (lane == 0) at<float2>(out.meta)[group] = make_float2(scale, (float)sum);
}
