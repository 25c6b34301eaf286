// rms_norm, add_rms_norm, layer_norm, l2_norm: one block a row, threads by the row's length; sums in f32 over a thread's share, then a tree.
#include "norm.hpp"
#include "strided.cuh"

DEV float as_stored(float v, int dtype) { return dtype == F16 ? from_half(to_half(v)) : dtype == BF16 ? from_bf16(to_bf16(v)) : v; }

DEV void norm_row(const NormParams& p) {
  wait_for_inputs();
  const i64 row = blockIdx.x;
  const char *x = place(p.x, p.rows, row), *b = p.b.data ? place(p.b, p.rows, row) : nullptr;
  char *sum = p.sum.data ? place(p.sum, p.rows, row) : nullptr, *y = place(p.y, p.rows, row);
  const auto value = [&](i64 i) {
    const float v = load_at(p.x, x, i);
    return b ? as_stored(v + load_at(p.b, b, i), p.sum.dtype) : v;
  };
  float mean = 0.0f;
  if (p.kind == norm_layer) {
    float s = 0.0f;
    for (i64 i = threadIdx.x; i < p.h; i += blockDim.x) s += value(i);
    mean = block_sum(s) / (float)p.h;
  }
  float s = 0.0f;
  for (i64 i = threadIdx.x; i < p.h; i += blockDim.x) {
    const float v = value(i) - mean;
    s = fmaf(v, v, s);
  }
  s = block_sum(s);
  const float length = sqrtf(s);
  const float factor = p.kind == norm_l2 ? 1.0f / (length < p.epsilon ? p.epsilon : length) : 1.0f / sqrtf(s / (float)p.h + p.epsilon);
  for (i64 i = threadIdx.x; i < p.h; i += blockDim.x) {
    const float v = value(i);
    if (sum) store_at(p.sum, sum, i, v);
    float normed = (v - mean) * factor;
    if (p.weight) normed *= at<const float>(p.weight)[i] + p.offset;
    if (p.bias) normed += at<const float>(p.bias)[i];
    store_at(p.y, y, i, normed);
  }
}
KERNEL(256) norm_256(const __grid_constant__ NormParams p) { norm_row(p); }
KERNEL(1024) norm_1024(const __grid_constant__ NormParams p) { norm_row(p); }
