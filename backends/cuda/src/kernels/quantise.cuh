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
/// The same of fours of neighbouring lanes, eight lanes a group; all lanes of a warp, those that have a four store. `squares`: of the four.
DEV void quantise_fours(const float4& v, float squares, const Activations& out, i64 group, bool stores) {
  const int lane = threadIdx.x & 7;
  float most = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
  bool wrong = v.x != v.x || v.y != v.y || v.z != v.z || v.w != v.w;
#pragma unroll
  for (int o = 4; o; o >>= 1) {
    most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
    wrong = __shfl_xor_sync(~0u, (int)wrong, o) | wrong;
    squares += __shfl_xor_sync(~0u, squares, o);
  }
  const float scale = wrong ? NOT_A_NUMBER : most / 127.0f, inverse = most > LEAST_CODED ? 127.0f / most : 0.0f;
  const u32 four = (u32)(__float2int_rn(v.x * inverse) & 0xff) | (u32)(__float2int_rn(v.y * inverse) & 0xff) << 8 |
                   (u32)(__float2int_rn(v.z * inverse) & 0xff) << 16 | (u32)__float2int_rn(v.w * inverse) << 24;
  int sum = __dp4a((int)four, 0x01010101, 0);
#pragma unroll
  for (int o = 4; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (!stores) return;
  reinterpret_cast<u32*>(at<i8>(out.codes) + group * 32)[lane] = four;
  if (lane != 0) return;
  at<float2>(out.meta)[group] = make_float2(scale, (float)sum);
  if (out.sums) at<float>(out.sums)[group] = squares;
}
