// Q3_X: d, a third bit of each code, then two low bits of each.
#pragma once
#include "encode.cuh"

template <> struct Format<Q3_X> {
  enum { sixteens = 2 };
  static DEV void decode16(const Blocks& w, i64 block, int s, float* out) {
    const u16* q = reinterpret_cast<const u16*>(at<const char>(w.plane[1]) + block * w.stride[1]) + 2 * s;
    const u32 low = q[0] | (u32)q[1] << 16;
    const u32 high = reinterpret_cast<const u16*>(at<const char>(w.plane[2]) + block * w.stride[2])[s];
    const float d = load_scale(w, 0, block, 0);
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = d * ((int)((low >> 2 * i & 3) | (high >> i & 1) << 2) - 4);
  }

  /// The block of a warp; load(i) is element i.
  template <class Load> static DEV void encode(const Load& load, char* to) {
    const int lane = threadIdx.x & 31;
    const float x = load(lane), most = most_of(fabsf(x), 32);
    const u32 who = __ballot_sync(~0u, fabsf(x) == most);
    const u16 d = to_half(__shfl_sync(~0u, x, who ? __ffs(who) - 1 : 0) / -4.0f);
    const int code = code_of(x * inverse_of(from_half(d)), -4, 3) + 4;
    const u32 high = __ballot_sync(~0u, code >> 2);
    int low = (code & 3) << 2 * (lane & 3);
    low |= __shfl_xor_sync(~0u, low, 1);
    low |= __shfl_xor_sync(~0u, low, 2);
    if (lane == 0) put_half(to, d);
    if (lane < 2) put_half(to + 2 + 2 * lane, (u16)(high >> 16 * lane));
    if (lane % 4 == 0) reinterpret_cast<u8*>(to)[6 + lane / 4] = (u8)low;
  }
};
