// Softmax and reductions of rows, argmax: one block a row.
#include "prelude.cuh"

KERNEL(256) softmax(const __grid_constant__ SoftmaxParams p) {
  wait_for_inputs();
  const i64 row = blockIdx.x, q = row % p.q, head = row / p.q % p.heads;
  View shape = p.y;
  const char* x = element(p.x, shape, row * p.k);
  const char* mask = p.mask.data ? element(p.mask, shape, row * p.k) : nullptr;
  char* y = element(p.y, shape, row * p.k);
  const i64 xs = p.x.strides[p.x.rank - 1], ys = p.y.strides[p.y.rank - 1], ms = p.mask.data ? p.mask.strides[p.mask.rank - 1] : 0;
  float slope = 1.0f;
  if (p.max_bias > 0.0f) {
    const int n = 1 << (31 - __clz((int)p.heads));
    slope = head < n ? exp2f(-p.max_bias * (head + 1) / n) : exp2f(-p.max_bias * 0.5f * (2 * (head - n) + 1) / n);
  }
  const auto value = [&](i64 k) {
    const i64 last = q + p.query_offset;
    if (p.causal && k > last) return -INFINITY_F;
    if (p.window > 0 && k <= last - p.window) return -INFINITY_F;
    float v = load_float(x + k * xs, p.x.dtype, 0) * p.scale;
    if (p.softcap > 0.0f) v = p.softcap * tanhf(v / p.softcap);
    if (mask) v = fmaf(slope, load_float(mask + k * ms, p.mask.dtype, 0), v);
    return v;
  };
  float most = p.sinks ? at<const float>(p.sinks)[head] : -INFINITY_F;
  const float sink = most;
  for (i64 k = threadIdx.x; k < p.k; k += blockDim.x) most = fmaxf(most, value(k));
  most = block_max(most);
  float sum = 0.0f;
  for (i64 k = threadIdx.x; k < p.k; k += blockDim.x) {
    const float v = value(k);
    if (v != -INFINITY_F) sum += expf(v - most);
  }
  sum = block_sum(sum);
  if (p.sinks && sink != -INFINITY_F) sum += expf(sink - most);
  for (i64 k = threadIdx.x; k < p.k; k += blockDim.x) {
    const float v = value(k);
    store_float(y + k * ys, p.y.dtype, 0, v == -INFINITY_F || most == -INFINITY_F ? 0.0f : expf(v - most) / sum);
  }
}

enum { MAX = 0, SUM = 1, LOGSUMEXP = 2, ARGMAX = 3, NORM = 4, MEAN = 5 };

/// A packed row of x to one element of y.
KERNEL(1024) reduce_rows(const __grid_constant__ ReduceParams p) {
  __shared__ float value[32];
  __shared__ int place[32];
  wait_for_inputs();
  const i64 row = blockIdx.x, base = row * p.n;
  const char* x = at<const char>(p.x.data);
  if (p.op == ARGMAX) {
    float best = -INFINITY_F;
    int where = 0x7fffffff;
    for (i64 i = threadIdx.x; i < p.n; i += blockDim.x) {
      const float v = load_float(x, p.x.dtype, base + i);
      if (v > best) {
        best = v;
        where = (int)i;
      }
    }
    for (int round = 0; round < 2; ++round) {
#pragma unroll
      for (int o = 16; o; o >>= 1) {
        const float v = __shfl_xor_sync(~0u, best, o);
        const int w = __shfl_xor_sync(~0u, where, o);
        if (v > best || (v == best && w < where)) {
          best = v;
          where = w;
        }
      }
      if (round == 1) break;
      if ((threadIdx.x & 31) == 0) {
        value[threadIdx.x >> 5] = best;
        place[threadIdx.x >> 5] = where;
      }
      __syncthreads();
      best = threadIdx.x < blockDim.x / 32 ? value[threadIdx.x] : -INFINITY_F;
      where = threadIdx.x < blockDim.x / 32 ? place[threadIdx.x] : 0x7fffffff;
    }
    if (threadIdx.x == 0) at<int>(p.y.data)[row] = where == 0x7fffffff ? 0 : where;
    return;
  }
  float r = p.op == MAX || p.op == LOGSUMEXP ? -INFINITY_F : 0.0f, nan = 0.0f;
  for (i64 i = threadIdx.x; i < p.n; i += blockDim.x) {
    const float v = load_float(x, p.x.dtype, base + i);
    if (p.op == MAX || p.op == LOGSUMEXP) {
      r = fmaxf(r, v);
      if (v != v) nan = 1.0f;
    } else {
      r += p.op == NORM ? v * v : v;
    }
  }
  if (p.op == MAX || p.op == LOGSUMEXP) {
    r = block_max(r);
    nan = block_max(nan);
    if (p.op == LOGSUMEXP) {
      float s = 0.0f;
      for (i64 i = threadIdx.x; i < p.n; i += blockDim.x) {
        const float v = load_float(x, p.x.dtype, base + i);
        if (v != -INFINITY_F) s += expf(v - r);
      }
      s = block_sum(s);
      r = r == -INFINITY_F || r == INFINITY_F ? r : r + logf(s);
    }
    if (nan > 0.0f) r = __int_as_float(0x7fc00000);
  } else {
    r = block_sum(r);
    if (p.op == NORM) r = sqrtf(r);
    if (p.op == MEAN) r /= (float)p.n;
  }
  if (threadIdx.x == 0) store_float(at<char>(p.y.data), p.y.dtype, row, r);
}
