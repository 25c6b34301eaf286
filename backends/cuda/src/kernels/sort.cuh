// Floats as unsigned keys in the order of ranking, and a stable radix sort of a block's keys in global memory.
#pragma once
#include "prelude.cuh"

/// Orders floats as unsigned numbers, the largest first; NaN as -inf.
DEV u32 descending(float x) {
  if (x != x) x = -INFINITY_F;
  if (x == 0.0f) x = 0.0f;  // -0 equals 0
  const u32 b = __float_as_uint(x);
  return ~(b & 0x80000000u ? ~b : b | 0x80000000u);
}
DEV float from_descending(u32 key) {
  const u32 b = ~key;
  return __uint_as_float(b & 0x80000000u ? b & 0x7fffffffu : ~b);
}
DEV double weight_of(float x, float best, double temperature) { return x == best ? 1.0 : exp(((double)x - (double)best) / temperature); }

DEV double block_sum_double(double v) {
  __shared__ double part[33];
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    double s = 0;
    for (int i = 0; i < (int)blockDim.x / 32; ++i) s += part[i];
    part[32] = s;
  }
  __syncthreads();
  return part[32];
}

/// Sorts n keys by their upper 32 bits, stable; the result is in `from` again (four passes of 8 bits).
DEV void sort_keys(u64* from, u64* to, i64 n) {
  __shared__ u32 count[32][256];  // a warp's bucket counts, then places
  __shared__ u32 totals[256];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  const i64 share = (n + warps - 1) / warps, begin = min(n, warp * share), end = min(n, begin + share);
  for (int shift = 32; shift < 64; shift += 8) {
    for (int b = lane; b < 256; b += 32) count[warp][b] = 0;
    __syncwarp();
    for (i64 i = begin + lane; i < end; i += 32) atomicAdd(&count[warp][from[i] >> shift & 255], 1u);
    __syncthreads();
    if (threadIdx.x < 256) {
      u32 total = 0;
      for (int w = 0; w < warps; ++w) {
        const u32 c = count[w][threadIdx.x];
        count[w][threadIdx.x] = total;
        total += c;
      }
      totals[threadIdx.x] = total;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      u32 run = 0;
      for (int b = 0; b < 256; ++b) {
        const u32 c = totals[b];
        totals[b] = run;
        run += c;
      }
    }
    __syncthreads();
    if (threadIdx.x < 256)
      for (int w = 0; w < warps; ++w) count[w][threadIdx.x] += totals[threadIdx.x];
    __syncthreads();
    for (i64 i = begin; i < end; i += 32) {
      const bool mine = i + lane < end;
      const u64 key = mine ? from[i + lane] : 0;
      const u32 bucket = mine ? (u32)(key >> shift & 255) : 256;
      const u32 same = __match_any_sync(~0u, bucket);
      const u32 before = __popc(same & ((1u << lane) - 1));
      u32 base = 0;
      if (mine) base = count[warp][bucket];
      __syncwarp();
      if (mine && before == 0) count[warp][bucket] = base + __popc(same);
      __syncwarp();
      if (mine) to[base + before] = key;
    }
    __syncthreads();
    u64* swap = from;
    from = to;
    to = swap;
  }
}
