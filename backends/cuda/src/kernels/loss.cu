// cross_entropy and its gradient, one block a row; masked_mean and its.
#include "loss.hpp"
#include "rows.cuh"

enum { IGNORED = -1, STRAY = -2 };
/// The label of a row, IGNORED, or STRAY, which raises the fault.
DEV i64 label_of(const CrossEntropyParams& p, i64 row) {
  const i64 label = *reinterpret_cast<const int*>(place(p.label, p.rows, row));
  if (label == p.ignore) return IGNORED;
  if (label >= 0 && label < p.n) return label;
  if (threadIdx.x == 0) raise_fault(p.faults);
  return STRAY;
}

KERNEL(1024) cross_entropy(const __grid_constant__ CrossEntropyParams p) {
  wait_for_inputs();
  const i64 row = blockIdx.x, label = label_of(p, row);
  const char* x = place(p.logits, p.rows, row);
  const float lse = row_log_sum_exp(p.logits, x, p.n);
  float mean = 0.0f;
  if (p.smoothing > 0.0f && label >= 0) {
    for (i64 i = threadIdx.x; i < p.n; i += blockDim.x) mean += load_at(p.logits, x, i);
    mean = block_sum(mean) / (float)p.n;
  }
  if (threadIdx.x != 0) return;
  if (p.lse.data) store_place(p.lse, p.rows, row, lse);
  if (!p.loss.data) return;
  float loss = 0.0f;
  if (label >= 0) {  // a term whose factor is 0 is left out: it may be infinite
    loss = lse;
    if (p.smoothing < 1.0f) loss -= (1.0f - p.smoothing) * load_at(p.logits, x, label);
    if (p.smoothing > 0.0f) loss -= p.smoothing * mean;
    if (p.z_loss != 0.0f) loss = fmaf(p.z_loss * lse, lse, loss);
  }
  store_place(p.loss, p.rows, row, loss);
}

KERNEL(256) cross_entropy_backward(const __grid_constant__ CrossEntropyParams p) {
  wait_for_inputs();
  const i64 row = blockIdx.x, label = label_of(p, row);
  const char* x = place(p.logits, p.rows, row);
  char* dx = place(p.dlogits, p.rows, row);
  const float lse = load_place(p.lse, p.rows, row), dloss = load_place(p.dloss, p.rows, row);
  const float factor = p.z_loss != 0.0f ? 1.0f + 2.0f * p.z_loss * lse : 1.0f, even = p.smoothing / (float)p.n;
  for (i64 i = threadIdx.x; i < p.n; i += blockDim.x) {
    float v = 0.0f;
    if (label >= 0) {
      v = factor * expf(load_at(p.logits, x, i) - lse) - even;
      if (i == label) v -= 1.0f - p.smoothing;
      v *= dloss;
    }
    store_at(p.dlogits, dx, i, v);
  }
}

KERNEL(256) masked_parts(const __grid_constant__ MaskedMeanParams p) {
  __shared__ double part[2][8];
  wait_for_inputs();
  double sum = 0.0, count = 0.0;
  FOR_EACH(i, p.shape.count)
    if (*reinterpret_cast<const int*>(place(p.mask, p.shape, i)) != 0) {  // what is hidden may be NaN
      sum += (double)load_place(p.x, p.shape, i);
      count += 1.0;
    }
#pragma unroll
  for (int o = 16; o; o >>= 1) {
    sum += __shfl_xor_sync(~0u, sum, o);
    count += __shfl_xor_sync(~0u, count, o);
  }
  if ((threadIdx.x & 31) == 0) {
    part[0][threadIdx.x >> 5] = sum;
    part[1][threadIdx.x >> 5] = count;
  }
  __syncthreads();
  if (threadIdx.x > 1) return;
  double total = 0.0;
  for (int w = 0; w < 8; ++w) total += part[threadIdx.x][w];
  at<double>(p.parts)[threadIdx.x * masked_blocks + blockIdx.x] = total;
}
KERNEL(32) masked_total(const __grid_constant__ MaskedMeanParams p) {
  wait_for_inputs();
  const double* parts = at<const double>(p.parts);
  double sum = parts[threadIdx.x] + parts[threadIdx.x + 32];
  double count = parts[masked_blocks + threadIdx.x] + parts[masked_blocks + threadIdx.x + 32];
#pragma unroll
  for (int o = 16; o; o >>= 1) {
    sum += __shfl_xor_sync(~0u, sum, o);
    count += __shfl_xor_sync(~0u, count, o);
  }
  if (threadIdx.x != 0) return;
  *at<float>(p.y) = count == 0.0 ? 0.0f : (float)(sum / count);
  *at<float>(p.count) = (float)count;
}

KERNEL(256) masked_mean_backward(const __grid_constant__ MaskedMeanBackwardParams p) {
  wait_for_inputs();
  const float each = *at<const float>(p.dy) / *at<const float>(p.count);
  FOR_EACH(i, p.shape.count)
    store_place(p.dx, p.shape, i, *reinterpret_cast<const int*>(place(p.mask, p.shape, i)) != 0 ? each : 0.0f);
}
