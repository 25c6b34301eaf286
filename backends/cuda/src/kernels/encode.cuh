// Block formats from floats. A warp makes a block of 32, an element a lane; or a block of 256, eight elements a lane.
//
//   symmetric  d = x* / -8 (q4_0), / -16 (q5_0), x* the first element of the largest magnitude; q8_0 d = max|x| / 127
//   offset     d = (max - min) / most code, m = min
//   K-quants   the same for groups of 32 (q6_k: symmetric, 16), with 0 in each range; scales and mins in 6 bits (8) of the block's largest
// Codes are of the stored scales, to nearest even, cut to their range.
#pragma once
#include "prelude.cuh"

/// min and max over `width` neighbouring lanes.
DEV float least_of(float v, int width) {
  for (int o = width / 2; o; o >>= 1) v = fminf(v, __shfl_xor_sync(~0u, v, o));
  return v;
}
DEV float most_of(float v, int width) {
  for (int o = width / 2; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
  return v;
}
DEV float inverse_of(float d) { return d != 0.0f ? 1.0f / d : 0.0f; }
DEV int code_of(float v, int least, int most) { return min(most, max(least, __float2int_rn(v))); }
DEV void put_half(char* to, u16 v) { *reinterpret_cast<u16*>(to) = v; }

/// 32 low nibbles, lane's element `code`: byte j holds elements j and j + 16.
DEV void put_nibbles(char* to, int code) {
  const int lane = threadIdx.x & 31, upper = __shfl_down_sync(~0u, code, 16);
  if (lane < 16) reinterpret_cast<u8*>(to)[lane] = (u8)((code & 15) | (upper & 15) << 4);
}

/// A warp's 32 values as a block of q8_0, q4_0, q4_1, q5_0 or q5_1.
DEV void encode_block32(float x, int dtype, char* to) {
  const int lane = threadIdx.x & 31;
  if (dtype == Q4_1 || dtype == Q5_1) {
    const float low = least_of(x, 32), high = most_of(x, 32);
    const int most = dtype == Q4_1 ? 15 : 31;
    const u16 step = to_half((high - low) / (float)most), least = to_half(low);
    const int code = code_of((x - from_half(least)) * inverse_of(from_half(step)), 0, most);
    if (lane == 0) {
      put_half(to, step);
      put_half(to + 2, least);
    }
    const u32 top = __ballot_sync(~0u, code >> 4);
    if (dtype == Q5_1 && lane < 2) put_half(to + 4 + 2 * lane, (u16)(top >> 16 * lane));
    put_nibbles(to + (dtype == Q4_1 ? 4 : 8), code);
    return;
  }
  const float most = most_of(fabsf(x), 32);
  const u32 who = __ballot_sync(~0u, fabsf(x) == most);
  const float extreme = __shfl_sync(~0u, x, who ? __ffs(who) - 1 : 0);
  const u16 stored = to_half(dtype == Q8_0 ? most / 127.0f : extreme / (dtype == Q4_0 ? -8.0f : -16.0f));
  const float inverse = inverse_of(from_half(stored));
  if (lane == 0) put_half(to, stored);
  if (dtype == Q8_0) {
    reinterpret_cast<i8*>(to + 2)[lane] = (i8)code_of(x * inverse, -128, 127);
  } else if (dtype == Q4_0) {
    put_nibbles(to + 2, code_of(x * inverse + 8.0f, 0, 15));
  } else {
    const int code = code_of(x * inverse + 16.0f, 0, 31);
    const u32 top = __ballot_sync(~0u, code >> 4);
    if (lane < 2) put_half(to + 2 + 2 * lane, (u16)(top >> 16 * lane));
    put_nibbles(to + 6, code);
  }
}

/// Scales and minima of eight groups in 12 bytes, 6 bits each: lane g < 8 gives those of group g.
DEV void put_k_scales(u8* to, int scale, int minimum) {
  const int lane = threadIdx.x & 31, later_scale = __shfl_down_sync(~0u, scale, 4), later_minimum = __shfl_down_sync(~0u, minimum, 4);
  if (lane >= 4) return;
  to[lane] = (u8)(scale | later_scale >> 4 << 6);
  to[4 + lane] = (u8)(minimum | later_minimum >> 4 << 6);
  to[8 + lane] = (u8)((later_scale & 15) | (later_minimum & 15) << 4);
}

/// A block of q4_k or q5_k: x holds elements 8 lane .. 8 lane + 7, `codes` 256 bytes of shared memory of this warp.
DEV void encode_offset_k(const float* x, int dtype, char* to, u8* codes) {
  const int lane = threadIdx.x & 31, most = dtype == Q4_K ? 15 : 31;
  float low = 0.0f, high = 0.0f;
  for (int i = 0; i < 8; ++i) {
    low = fminf(low, x[i]);
    high = fmaxf(high, x[i]);
  }
  low = least_of(low, 4);
  high = most_of(high, 4);
  const float scale = (high - low) / (float)most;
  const u16 d = to_half(most_of(scale, 32) / 63.0f), m = to_half(most_of(-low, 32) / 63.0f);
  const int scale_code = code_of(scale * inverse_of(from_half(d)), 0, 63), least_code = code_of(-low * inverse_of(from_half(m)), 0, 63);
  const float offset = from_half(m) * (float)least_code, inverse = inverse_of(from_half(d) * (float)scale_code);
  for (int i = 0; i < 8; ++i) codes[8 * lane + i] = (u8)code_of((x[i] + offset) * inverse, 0, most);
  __syncwarp();
  if (lane == 0) {
    put_half(to, d);
    put_half(to + 2, m);
  }
  const int from = lane < 8 ? 4 * lane : 0;
  put_k_scales(reinterpret_cast<u8*>(to) + 4, __shfl_sync(~0u, scale_code, from), __shfl_sync(~0u, least_code, from));
  u8* low_bits = reinterpret_cast<u8*>(to) + (dtype == Q4_K ? 16 : 48);
  for (int pair = 0; pair < 4; ++pair)
    low_bits[32 * pair + lane] = (u8)((codes[64 * pair + lane] & 15) | (codes[64 * pair + 32 + lane] & 15) << 4);
  if (dtype == Q5_K) {
    int top = 0;
    for (int g = 0; g < 8; ++g) top |= (codes[32 * g + lane] >> 4) << g;
    reinterpret_cast<u8*>(to)[16 + lane] = (u8)top;
  }
  __syncwarp();
}

/// A block of q6_k: symmetric groups of 16.
DEV void encode_q6_k(const float* x, char* to, u8* codes) {
  const int lane = threadIdx.x & 31;
  float low = 0.0f, high = 0.0f;
  for (int i = 0; i < 8; ++i) {
    low = fminf(low, x[i]);
    high = fmaxf(high, x[i]);
  }
  low = least_of(low, 2);
  high = most_of(high, 2);
  const float scale = (high > -low ? high : low) / -32.0f;
  const u16 d = to_half(most_of(fabsf(scale), 32) / 127.0f);
  const int scale_code = code_of(scale * inverse_of(from_half(d)), -127, 127);
  const float inverse = inverse_of(from_half(d) * (float)scale_code);
  for (int i = 0; i < 8; ++i) codes[8 * lane + i] = (u8)(code_of(x[i] * inverse, -32, 31) + 32);
  __syncwarp();
  if (lane == 0) put_half(to + 208, d);
  if (lane % 2 == 0) reinterpret_cast<i8*>(to)[192 + lane / 2] = (i8)scale_code;
  for (int n = 0; n < 2; ++n) {  // halves of 128: element 64 high + 32 g + j
    const u8* c = codes + 128 * n + lane;
    for (int g = 0; g < 2; ++g) reinterpret_cast<u8*>(to)[64 * n + 32 * g + lane] = (u8)((c[32 * g] & 15) | (c[64 + 32 * g] & 15) << 4);
    reinterpret_cast<u8*>(to)[128 + 32 * n + lane] = (u8)(c[0] >> 4 | (c[32] >> 4) << 2 | (c[64] >> 4) << 4 | (c[96] >> 4) << 6);
  }
  __syncwarp();
}
