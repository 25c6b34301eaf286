// rms_norm, add_rms_norm, layer_norm, l2_norm: one block a row, 256 or 1024 threads; sums in f32 over 1/threads of a row, then a tree.
#include "prelude.cuh"

DEV void norm_row(const NormParams& p) {
  const i64 row = blockIdx.x, base = row * p.h;
  const char *x = at<const char>(p.x), *b = at<const char>(p.b);
  const auto value = [&](i64 i) {
    float v = load_float(x, p.dtype, base + i);
    if (b) {
      v += load_float(b, p.dtype, base + i);
      if (p.dtype == F16) v = from_half(to_half(v));
      if (p.dtype == BF16) v = from_bf16(to_bf16(v));
    }
    return v;
  };
  float mean = 0.0f;
  if (p.kind == 1) {
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
  const float factor = p.kind == 2 ? 1.0f / fmaxf(sqrtf(s), p.epsilon) : 1.0f / sqrtf(s / (float)p.h + p.epsilon);
  for (i64 i = threadIdx.x; i < p.h; i += blockDim.x) {
    const float v = value(i);
    if (p.sum) store_float(at<char>(p.sum), p.dtype, base + i, v);
    float y = (v - mean) * factor;
    if (p.weight) y *= at<const float>(p.weight)[i] + p.offset;
    if (p.bias) y += at<const float>(p.bias)[i];
    store_float(at<char>(p.y), p.dtype, base + i, y);
  }
}
KERNEL(256) norm_256(const __grid_constant__ NormParams p) { wait_for_inputs(); norm_row(p); }
KERNEL(1024) norm_1024(const __grid_constant__ NormParams p) { wait_for_inputs(); norm_row(p); }
