// y = alpha W x + bias + beta c for 1 to 8 rows of float activations, in f32: no conversion of the activations.
//
//   block  8 warps. `ways` of them share a row of W: lane l of the w-th takes sixteens 32 w + l, 32 (w + ways) + l, ... of the row
//   order  the same for any number of activation rows
#include "blocks.cuh"

/// Sixteen activations of a row from the i-th on. What they are is asked once for all of them: this is written out for each format and row.
DEV void load_sixteen(const GemvExactParams& p, i64 i, float* out) {
  if (p.x_dtype == F32) {
    const float4* x = reinterpret_cast<const float4*>(at<const float>(p.x) + i);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float4 v = x[j];
      out[4 * j] = v.x, out[4 * j + 1] = v.y, out[4 * j + 2] = v.z, out[4 * j + 3] = v.w;
    }
    return;
  }
  const u16* x = at<const u16>(p.x) + i;
  const bool half = p.x_dtype == F16;
#pragma unroll
  for (int j = 0; j < 16; ++j) out[j] = half ? from_half(x[j]) : from_bf16(x[j]);
}

/// Rows beyond p.t repeat the last one, and are not stored.
template <int F, int T> DEV void accumulate(const GemvExactParams& p, i64 row, int way, float* acc) {
  const int sixteens = p.k / 16;
  enum { n = Format<F>::sixteens };
  for (int s = way * 32 + (threadIdx.x & 31); s < sixteens; s += 32 * p.ways) {
    float w[16];
    const i64 at_sixteen = row * sixteens + s;
    Format<F>::decode16(p.w, at_sixteen / n, (int)(at_sixteen % n), w);
#pragma unroll
    for (int t = 0; t < T; ++t) {
      float x[16];
      load_sixteen(p, (i64)min(t, p.t - 1) * p.k + s * 16, x);
#pragma unroll
      for (int i = 0; i < 16; ++i) acc[t] = fmaf(w[i], x[i], acc[t]);
    }
  }
}

template <int T> DEV void gemv_exact(const GemvExactParams& p) {
  __shared__ float parts[8][T];
  wait_for_inputs();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, way = warp % p.ways;
  const i64 row = ((i64)blockIdx.x * 8 + warp) / p.ways;
  float acc[T] = {};
  if (row < p.rows) switch (p.w.dtype) {
#define CALL(FORMAT) accumulate<FORMAT, T>(p, row, way, acc)
    ANY_FORMAT_CASES
#undef CALL
  }
#pragma unroll
  for (int t = 0; t < T; ++t) acc[t] = warp_sum(acc[t]);
  if (p.ways > 1) {
#pragma unroll
    for (int t = 0; t < T; ++t)
      if (lane == 0) parts[warp][t] = acc[t];
    __syncthreads();
#pragma unroll
    for (int t = 0; t < T; ++t)
      for (int w = 1; w < p.ways; ++w) acc[t] += parts[(warp + w) & 7][t];
  }
  if (row >= p.rows || way != 0 || lane != 0) return;
#pragma unroll
  for (int t = 0; t < T; ++t) {
    if (t >= p.t) continue;
    float y = acc[t] * p.alpha;
    if (p.bias) y += at<const float>(p.bias)[row];
    if (p.c) y = fmaf(p.beta, load_float(at<const char>(p.c), p.c_dtype, (i64)t * p.rows + row), y);
    store_float(at<char>(p.y), p.y_dtype, (i64)t * p.rows + row, y);
  }
}
KERNEL(256) gemv_exact_1(const __grid_constant__ GemvExactParams p) { gemv_exact<1>(p); }
KERNEL(256) gemv_exact_2(const __grid_constant__ GemvExactParams p) { gemv_exact<2>(p); }
KERNEL(256) gemv_exact_4(const __grid_constant__ GemvExactParams p) { gemv_exact<4>(p); }
KERNEL(256) gemv_exact_8(const __grid_constant__ GemvExactParams p) { gemv_exact<8>(p); }
