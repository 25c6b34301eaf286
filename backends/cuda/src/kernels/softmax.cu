// softmax with masks, softmax_backward; logsumexp, max and argmax of rows: one block a row.
#include "alibi.cuh"
#include "rows.cuh"
#include "softmax.hpp"

KERNEL(256) softmax(const __grid_constant__ SoftmaxParams p) {
  wait_for_inputs();
  const i64 row = blockIdx.x, q = row % p.q, head = row / p.q % p.heads;
  const char *x = place(p.x, p.rows, row), *mask = p.mask.data ? place(p.mask, p.rows, row) : nullptr;
  char* y = place(p.y, p.rows, row);
  const float slope = alibi_slope(p.max_bias, head, p.heads);
  const i64 last = q + p.query_offset;
  const auto value = [&](i64 k) {
    if (p.causal && k > last) return -INFINITY_F;
    if (p.window > 0 && k <= last - p.window) return -INFINITY_F;
    float v = load_at(p.x, x, k) * p.scale;
    if (p.softcap > 0.0f) v = p.softcap * tanhf(v / p.softcap);
    if (mask) {
      const float m = load_at(p.mask, mask, k);
      v = m == -INFINITY_F ? m : fmaf(slope, m, v);
    }
    return v;
  };
  const float sink = p.sinks ? at<const float>(p.sinks)[head] : -INFINITY_F;
  RowMaximum maximum;
  maximum.add(sink);
  for (i64 k = threadIdx.x; k < p.n; k += blockDim.x) maximum.add(value(k));
  const float most = maximum.of_block();
  float sum = 0.0f;
  for (i64 k = threadIdx.x; k < p.n; k += blockDim.x) {
    const float v = value(k);
    if (v != -INFINITY_F) sum += expf(v - most);
  }
  sum = block_sum(sum);
  if (sink != -INFINITY_F) sum += expf(sink - most);
  for (i64 k = threadIdx.x; k < p.n; k += blockDim.x) {
    const float v = value(k);
    store_at(p.y, y, k, most != most ? most : v == -INFINITY_F ? 0.0f : expf(v - most) / sum);
  }
}

KERNEL(256) softmax_backward(const __grid_constant__ SoftmaxBackwardParams p) {
  wait_for_inputs();
  const char *y = place(p.y, p.rows, blockIdx.x), *dy = place(p.dy, p.rows, blockIdx.x);
  char* dx = place(p.dx, p.rows, blockIdx.x);
  float dot = 0.0f;
  for (i64 i = threadIdx.x; i < p.n; i += blockDim.x) dot = fmaf(load_at(p.y, y, i), load_at(p.dy, dy, i), dot);
  dot = block_sum(dot);
  for (i64 i = threadIdx.x; i < p.n; i += blockDim.x)
    store_at(p.dx, dx, i, p.scale * load_at(p.y, y, i) * (load_at(p.dy, dy, i) - dot));
}

KERNEL(1024) logsumexp(const __grid_constant__ RowReduceParams p) {
  wait_for_inputs();
  const float lse = row_log_sum_exp(p.x, place(p.x, p.rows, blockIdx.x), p.n);
  if (threadIdx.x == 0) store_place(p.y, p.rows, blockIdx.x, lse);
}

KERNEL(1024) max_rows(const __grid_constant__ RowReduceParams p) {
  wait_for_inputs();
  const char* x = place(p.x, p.rows, blockIdx.x);
  RowMaximum maximum;
  for (i64 i = threadIdx.x; i < p.n; i += blockDim.x) maximum.add(load_at(p.x, x, i));
  const float most = maximum.of_block();
  if (threadIdx.x == 0) store_place(p.y, p.rows, blockIdx.x, most);
}

/// Position of the largest, ties to the lowest; NaN counts as -inf.
KERNEL(1024) argmax(const __grid_constant__ RowReduceParams p) {
  __shared__ float value[32];
  __shared__ int place_of[32];
  wait_for_inputs();
  const char* x = place(p.x, p.rows, blockIdx.x);
  const int none = 0x7fffffff;
  float best = -INFINITY_F;
  int where = none;
  const auto meet = [&](float v, int w) {
    if (v > best || (v == best && w < where)) {
      best = v;
      where = w;
    }
  };
  for (i64 i = threadIdx.x; i < p.n; i += blockDim.x) {
    const float v = load_at(p.x, x, i);
    if (v > best) meet(v, (int)i);
  }
#pragma unroll
  for (int o = 16; o; o >>= 1) meet(__shfl_xor_sync(~0u, best, o), __shfl_xor_sync(~0u, where, o));
  if ((threadIdx.x & 31) == 0) {
    value[threadIdx.x >> 5] = best;
    place_of[threadIdx.x >> 5] = where;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < (int)blockDim.x / 32; ++w) meet(value[w], place_of[w]);
  *reinterpret_cast<int*>(place(p.y, p.rows, blockIdx.x)) = where == none ? 0 : where;
}
