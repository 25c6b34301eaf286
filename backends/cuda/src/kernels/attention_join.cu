// Joins the parts that attention_rows.cu and attention_groups.cu leave where several blocks share the keys of their rows.
//
//   grid   (1024 elements of a row, rows)
//   lanes  four elements each; the parts of all shares are asked for side by side
//
// A share without keys that a row sees has -inf for its largest logit and no part. The order of sums is that of the shares.
#include "operand.cuh"
#include "kv.cuh"

#if __CUDA_ARCH__ >= 800
DEV void join(const AttentionRowsParams& p) {
  wait_for_inputs();
  const int row = blockIdx.y, first = row / 128 * 128, d = p.k.d, size = p.heads * d, i = (int)(blockIdx.x * 1024 + threadIdx.x * 4);
  if (p.most_runs && runs_of(p.k, first, min(128, p.rows - first)) > p.most_runs) return;
  if (i >= size) return;  // of an operand, whose rows are whole blocks of 256: whole warps
  const i64 part = ((i64)row * p.heads + i / d) * p.splits;
  const float2* softmax = at<const float2>(p.softmax) + part;
  const float* parts = at<const float>(p.partial) + part * d + i % d;
  float top = -INFINITY_F;
#pragma unroll 8
  for (int k = 0; k < p.splits; ++k) top = fmaxf(top, softmax[k].x);
  const float unit = p.scale * 1.44269504f;
  float total = 0.0f;
  float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 8
  for (int k = 0; k < p.splits; ++k) {
    const float2 of = softmax[k];
    if (of.x == -INFINITY_F) continue;
    const float factor = exp2f((of.x - top) * unit);
    const float4 x = *reinterpret_cast<const float4*>(parts + (i64)k * d);
    total = fmaf(factor, of.y, total);
    v.x = fmaf(factor, x.x, v.x);
    v.y = fmaf(factor, x.y, v.y);
    v.z = fmaf(factor, x.z, v.z);
    v.w = fmaf(factor, x.w, v.w);
  }
  const float inverse = total > 0.0f ? 1.0f / total : total == 0.0f ? 0.0f : total;  // a NaN stays one
  v.x *= inverse, v.y *= inverse, v.z *= inverse, v.w *= inverse;
  if (p.y_columns) store_operand_four(at<char>(p.y16) + operand_row(row, p.y_columns, size / 256), p.y_columns, i, v, p.half, p.y_places);
  else if (p.y16) *reinterpret_cast<uint2*>(at<u16>(p.y16) + (i64)row * size + i) = make_uint2(pack16(v.x, v.y, p.half), pack16(v.z, v.w, p.half));
  else *reinterpret_cast<float4*>(at<float>(p.y) + (i64)row * size + i) = v;
}
#endif

KERNEL(256) attention_join(const __grid_constant__ AttentionRowsParams p) {
#if __CUDA_ARCH__ >= 800
  join(p);
#endif
}
