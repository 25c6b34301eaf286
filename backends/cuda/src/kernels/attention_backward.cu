// attention_backward, attention_ragged_backward: gradients of attention_dense and attention_ragged in f32, probabilities recomputed from lse,
// memory linear in length, no atomics.
//
// With p = exp(s - lse), dp = dy . v, D = dy . y: ds = p (dp - D) bend scale; dv = sum p dy, dk = sum ds q, dq = sum ds k.
//   attention_dots    D, a warp a row
//   attention_keys    dk and dv: a block has a tile of keys and goes over the heads of its group and the queries that see it
//   attention_queries dq: a block has a tile of queries and goes over the keys that they see
//   shared            q, dy, k, v and two matrices of weights, tiles of 16 T
#include "dense_attention.cuh"

KERNEL(256) attention_dots(const __grid_constant__ DenseAttentionParams p) {
  wait_for_inputs();
  const i64 t = (i64)blockIdx.x * 8 + (threadIdx.x >> 5), head = blockIdx.y, b = blockIdx.z;
  if (t >= p.queries) return;
  const char *y = head_row(p.y, b, t, head), *dy = head_row(p.dy, b, t, head);
  float dot = 0.0f;
  for (int i = threadIdx.x & 31; i < p.dv_size; i += 32) dot = fmaf(load_at(p.y, y, i), load_at(p.dy, dy, i), dot);
  dot = warp_sum(dot);
  if ((threadIdx.x & 31) == 0) *dot_of(p, b, t, head) = dot;
}

/// The tiles of a block in shared memory.
template <int T> struct BackwardTiles {
  float *q, *dy, *k, *v, *weights, *slopes;
  DEV BackwardTiles(const DenseAttentionParams& p, float* memory) {
    const int tile = 16 * T;
    q = memory;
    k = q + tile * dense_pitch(p.d);
    dy = k + tile * dense_pitch(p.d);
    v = dy + tile * dense_pitch(p.dv_size);
    weights = v + tile * dense_pitch(p.dv_size);
    slopes = weights + tile * (tile + 1);
  }
};

/// p and ds of the tile (queries from t0, keys from u0), queries by rows, into `weights` and `slopes`.
template <int T> DEV void weigh(const DenseAttentionParams& p, const Extent& x, const BackwardTiles<T>& s, i64 head, int t0, int u0, float slope) {
  const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4, pitch = 16 * T + 1;
  float dots[T][T], products[T][T];
  multiply_rows<T>(dots, s.q, s.k, p.d);
  multiply_rows<T>(products, s.dy, s.v, p.dv_size);
#pragma unroll
  for (int r = 0; r < T; ++r) {
    const int t = t0 + ty + 16 * r, row = min(t, x.queries - 1);
    const float lse = *reinterpret_cast<const float*>(head_row(p.lse, x.b, row, head));
    const float inner = *dot_of(p, x.b, row, head);
#pragma unroll
    for (int c = 0; c < T; ++c) {
      float bend;
      const float logit = logit_of(p, x, dots[r][c], head, t, u0 + tx + 16 * c, slope, bend);
      const float weight = logit == -INFINITY_F ? 0.0f : logit == lse ? 1.0f : expf(logit - lse);
      s.weights[(ty + 16 * r) * pitch + tx + 16 * c] = weight;
      s.slopes[(ty + 16 * r) * pitch + tx + 16 * c] = weight == 0.0f ? 0.0f : weight * (products[r][c] - inner) * bend * p.scale;
    }
  }
}

template <int T, int C> DEV void gradient_of_keys(const DenseAttentionParams& p, float* memory) {
  wait_for_inputs();
  const BackwardTiles<T> s(p, memory);
  const int tile = 16 * T, group = p.heads / p.kv_heads;
  const Extent x = extent_of(p, tile, p.keys);
  if (x.first >= x.rows) return;
  const int first = x.first;
  const i64 kv_head = blockIdx.y, b = x.b;
  load_tile<16 * T>(s.k, p.k, b, first, x.rows, kv_head, p.d);
  load_tile<16 * T>(s.v, p.v, b, first, x.rows, kv_head, p.dv_size);
  float dk[T][C] = {}, dv[T][C] = {};
  int begin, end;
  queries_in_sight(p, x, first, min(tile, x.rows - first), begin, end);
  for (i64 head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const float slope = alibi_slope(p.max_bias, head, p.heads);
    for (int t = begin / tile * tile; t < end; t += tile) {
      __syncthreads();
      bool strange = load_tile<16 * T>(s.q, p.q, b, t, x.queries, head, p.d);
      strange = load_tile<16 * T>(s.dy, p.dy, b, t, x.queries, head, p.dv_size) || strange;
      const bool guarded = __syncthreads_or(strange);
      weigh<T>(p, x, s, head, t, first, slope);
      __syncthreads();
      add_products<T, C, true>(dv, s.weights, s.dy, p.dv_size, guarded);
      add_products<T, C, true>(dk, s.slopes, s.q, p.d, guarded);
    }
  }
  store_sums<T, C>(dk, p.dk, b, first, x.rows, kv_head, p.d);
  store_sums<T, C>(dv, p.dv, b, first, x.rows, kv_head, p.dv_size);
}

template <int T, int C> DEV void gradient_of_queries(const DenseAttentionParams& p, float* memory) {
  wait_for_inputs();
  const BackwardTiles<T> s(p, memory);
  const int tile = 16 * T;
  const Extent x = extent_of(p, tile, p.queries);
  if (x.first >= x.rows) return;
  const int first = x.first;
  const i64 head = blockIdx.y, b = x.b, kv_head = head / (p.heads / p.kv_heads);
  load_tile<16 * T>(s.q, p.q, b, first, x.rows, head, p.d);
  load_tile<16 * T>(s.dy, p.dy, b, first, x.rows, head, p.dv_size);
  const float slope = alibi_slope(p.max_bias, head, p.heads);
  float dq[T][C] = {};
  int begin, end;
  keys_in_sight(p, x, first, min(tile, x.rows - first), begin, end);
  for (int key = begin / tile * tile; key < end; key += tile) {
    __syncthreads();
    const bool strange = load_tile<16 * T>(s.k, p.k, b, key, x.keys, kv_head, p.d);
    load_tile<16 * T>(s.v, p.v, b, key, x.keys, kv_head, p.dv_size);
    const bool guarded = __syncthreads_or(strange);
    weigh<T>(p, x, s, head, first, key, slope);
    __syncthreads();
    add_products<T, C, false>(dq, s.slopes, s.k, p.d, guarded);
  }
  store_sums<T, C>(dq, p.dq, b, first, x.rows, head, p.d);
}

#define GRADIENTS(T, C) \
  KERNEL(256) attention_keys_##T##_##C(const __grid_constant__ DenseAttentionParams p) { \
    extern __shared__ __align__(16) float memory[]; \
    gradient_of_keys<T, C>(p, memory); \
  } \
  KERNEL(256) attention_queries_##T##_##C(const __grid_constant__ DenseAttentionParams p) { \
    extern __shared__ __align__(16) float memory[]; \
    gradient_of_queries<T, C>(p, memory); \
  }
GRADIENTS(4, 4)
GRADIENTS(2, 8)
GRADIENTS(2, 16)
GRADIENTS(1, 16)
