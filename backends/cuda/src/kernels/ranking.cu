// top_k, sort and the masks of logits, one block a row: keys that order from best to worst, or from worst to best, sorted by sort.cuh.
#include "ranking.hpp"
#include "rows.cuh"
#include "sort.cuh"

DEV float logit_of(u64 key) { return from_descending((u32)(key >> 32)); }

KERNEL(1024) rank_rows(const __grid_constant__ RankParams p) {
  wait_for_inputs();
  const i64 row = blockIdx.x;
  const char* x = place(p.x, p.rows, row);
  char *value = place(p.value, p.rows, row), *index = place(p.index, p.rows, row);
  u64* keys = at<u64>(p.keys) + row * 2 * p.n;
  for (i64 i = threadIdx.x; i < p.n; i += blockDim.x) {
    const u32 key = descending(load_at(p.x, x, i));
    keys[i] = (u64)(p.ascending ? ~key : key) << 32 | (u32)i;
  }
  __syncthreads();
  sort_keys(keys, keys + p.n, p.n);
  for (i64 i = threadIdx.x; i < p.k; i += blockDim.x) {
    const u32 from = (u32)keys[i];
    if (p.value.data) store_at(p.value, value, i, load_at(p.x, x, from));
    if (p.index.data) *reinterpret_cast<int*>(index + i * p.index.step) = (int)from;
  }
}

/// How many of the best `count` logits it takes until their probabilities reach p: a scan, each thread a share of neighbours.
DEV i64 reach(const u64* keys, i64 count, float best, double p) {
  __shared__ double totals[32];  // of warps
  __shared__ i64 reached;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const i64 share = (count + blockDim.x - 1) / blockDim.x, begin = min(count, threadIdx.x * share), end = min(count, begin + share);
  double sum = 0.0;
  for (i64 i = begin; i < end; ++i) sum += weight_of(logit_of(keys[i]), best, 1.0);
  double upto = sum;  // and all that the lanes below have
#pragma unroll
  for (int o = 1; o < 32; o <<= 1) {
    const double left = __shfl_up_sync(~0u, upto, o);
    if (lane >= o) upto += left;
  }
  double below = __shfl_up_sync(~0u, upto, 1);
  if (lane == 0) below = 0.0;
  if (lane == 31) totals[warp] = upto;
  if (threadIdx.x == 0) reached = count;
  __syncthreads();
  double warps_below = 0.0, all = 0.0;
  for (int w = 0; w < (int)blockDim.x >> 5; ++w) {
    if (w == warp) warps_below = all;
    all += totals[w];
  }
  // What one thread has up to its end is to the bit what the next has before its start: one of them reaches `enough`.
  const double enough = p * all;
  double before = warps_below + below;
  if (begin < end && before < enough && warps_below + upto >= enough) {  // the first share that reaches it
    i64 i = begin;
    for (; i < end - 1; ++i) {
      before += weight_of(logit_of(keys[i]), best, 1.0);
      if (before >= enough) break;
    }
    atomicMin(reinterpret_cast<u64*>(&reached), (u64)(i + 1));
  }
  __syncthreads();
  return enough <= 0.0 ? 1 : reached;
}

KERNEL(1024) mask_rows(const __grid_constant__ MaskParams p) {
  wait_for_inputs();
  const i64 row = blockIdx.x;
  const char *x = place(p.x, p.rows, row), *setting = place(p.setting, p.rows, row);
  char* y = place(p.y, p.rows, row);
  const int k = p.kind == mask_top_k ? *reinterpret_cast<const int*>(setting) : 0;
  const float share = p.kind == mask_top_k ? 0.0f : *reinterpret_cast<const float*>(setting);
  const bool all = p.kind == mask_top_k ? k <= 0 : p.kind == mask_top_p ? share >= 1.0f : share <= 0.0f;
  if (all) {
    for (i64 i = threadIdx.x; i < p.n; i += blockDim.x) store_at(p.y, y, i, load_at(p.x, x, i));
    return;
  }
  float best = -INFINITY_F;
  for (i64 i = threadIdx.x; i < p.n; i += blockDim.x) best = fmaxf(best, load_at(p.x, x, i));
  best = block_max(best);
  if (p.kind == mask_min_p) {
    __shared__ int first;  // of the best
    if (threadIdx.x == 0) first = 0x7fffffff;
    __syncthreads();
    for (i64 i = threadIdx.x; i < p.n; i += blockDim.x)
      if (load_at(p.x, x, i) == best) atomicMin(&first, (int)i);
    __syncthreads();
    for (i64 i = threadIdx.x; i < p.n; i += blockDim.x) {
      const float v = load_at(p.x, x, i);
      const bool kept = i == first || (v > -INFINITY_F && weight_of(v, best, 1.0) >= (double)share);
      store_at(p.y, y, i, kept ? v : -INFINITY_F);
    }
    return;
  }
  u64* keys = at<u64>(p.keys) + row * 2 * p.n;
  double finite = 0.0;
  for (i64 i = threadIdx.x; i < p.n; i += blockDim.x) {
    const float v = load_at(p.x, x, i);
    keys[i] = (u64)descending(v) << 32 | (u32)i;
    finite += v > -INFINITY_F ? 1.0 : 0.0;
  }
  const i64 count = (i64)block_sum_double(finite);
  __syncthreads();
  sort_keys(keys, keys + p.n, p.n);
  i64 kept = count;
  if (count > 0) kept = p.kind == mask_top_k ? min(count, (i64)k) : reach(keys, count, best, (double)share);
  for (i64 i = threadIdx.x; i < p.n; i += blockDim.x) {
    const u32 from = (u32)keys[i];
    store_at(p.y, y, from, i < kept ? load_at(p.x, x, from) : -INFINITY_F);
  }
}
