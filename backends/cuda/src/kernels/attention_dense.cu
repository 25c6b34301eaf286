// attention_dense, attention_ragged: flash attention over dense keys in f32, memory linear in length.
//
//   grid    (tiles of 16 T queries, heads, b); of packed examples (ragged_tiles, heads, 1); 256 threads
//   shared  q, then k and v in turn, and the probabilities of a tile of 16 T keys
#include "dense_attention.cuh"

DEV float group_max(float v) {  // of the 16 threads of a row
#pragma unroll
  for (int o = 8; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
  return v;
}
DEV float group_sum(float v) {
#pragma unroll
  for (int o = 8; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}

template <int T, int C> DEV void attend(const DenseAttentionParams& p, float* memory) {
  wait_for_inputs();
  const int tile = 16 * T, tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
  const Extent x = extent_of(p, tile, p.queries);
  if (x.first >= x.rows) return;
  const int first = x.first;
  const i64 head = blockIdx.y, b = x.b, kv_head = head / (p.heads / p.kv_heads);
  float *q = memory, *kv = q + tile * dense_pitch(p.d), *weights = kv + tile * dense_pitch(max(p.d, p.dv_size));
  const float slope = alibi_slope(p.max_bias, head, p.heads);
  load_tile<16 * T>(q, p.q, b, first, x.rows, head, p.d);
  float out[T][C] = {}, most[T], sum[T];
#pragma unroll
  for (int r = 0; r < T; ++r) {
    most[r] = -INFINITY_F;
    sum[r] = 0.0f;
  }
  int begin, end;
  keys_in_sight(p, x, first, min(tile, x.rows - first), begin, end);
  for (int key = begin / tile * tile; key < end; key += tile) {
    __syncthreads();
    load_tile<16 * T>(kv, p.k, b, key, x.keys, kv_head, p.d);
    __syncthreads();
    float dots[T][T];
    multiply_rows<T>(dots, q, kv, p.d);
    __syncthreads();  // k is read
    const bool strange = load_tile<16 * T>(kv, p.v, b, key, x.keys, kv_head, p.dv_size);
#pragma unroll
    for (int r = 0; r < T; ++r) {
      float largest = -INFINITY_F, added = 0.0f, bend;
#pragma unroll
      for (int c = 0; c < T; ++c) {
        dots[r][c] = logit_of(p, x, dots[r][c], head, first + ty + 16 * r, key + tx + 16 * c, slope, bend);
        largest = fmaxf(largest, dots[r][c]);
      }
      const float now = fmaxf(most[r], group_max(largest)), kept = most[r] == -INFINITY_F ? 0.0f : expf(most[r] - now);
#pragma unroll
      for (int c = 0; c < T; ++c) {
        const float e = dots[r][c] == -INFINITY_F ? 0.0f : expf(dots[r][c] - now);
        weights[(ty + 16 * r) * (tile + 1) + tx + 16 * c] = e;
        added += e;
      }
      sum[r] = fmaf(sum[r], kept, group_sum(added));
      most[r] = now;
#pragma unroll
      for (int c = 0; c < C; ++c) out[r][c] *= kept;
    }
    const bool guarded = __syncthreads_or(strange);
    add_products<T, C, false>(out, weights, kv, p.dv_size, guarded);
  }
  const float sink = p.sinks ? at<const float>(p.sinks)[head] : -INFINITY_F;
#pragma unroll
  for (int r = 0; r < T; ++r) {
    const float top = fmaxf(most[r], sink), kept = most[r] == -INFINITY_F ? 0.0f : expf(most[r] - top);
    const float total = fmaf(sum[r], kept, sink == -INFINITY_F ? 0.0f : expf(sink - top));
    const float factor = total == 0.0f ? 0.0f : kept / total;
#pragma unroll
    for (int c = 0; c < C; ++c) out[r][c] *= factor;
    const int t = first + ty + 16 * r;
    if (p.lse.data && tx == 0 && t < x.rows)
      *reinterpret_cast<float*>(const_cast<char*>(head_row(p.lse, b, t, head))) = total == 0.0f ? -INFINITY_F : top + logf(total);
  }
  store_sums<T, C>(out, p.y, b, first, x.rows, head, p.dv_size);
}

#define ATTEND(T, C) \
  KERNEL(256) attention_dense_##T##_##C(const __grid_constant__ DenseAttentionParams p) { \
    extern __shared__ __align__(16) float memory[]; \
    attend<T, C>(p, memory); \
  }
ATTEND(4, 4)
ATTEND(4, 8)
ATTEND(2, 16)
ATTEND(1, 16)
