// What the kernels of paged attention share: rotating, the softmax's logits, and joining the splits of a row's keys.
#pragma once
#include "alibi.cuh"
#include "attention.hpp"
#include "kv.cuh"
#include "quantise.cuh"
#include "operand.cuh"

enum { TILE = attention_keys, HEADS = attention_heads, MAX_D = attention_most_head };

/// For H heads of up to D elements, in PARTS of the keys.
template <int H, int D, int PARTS = 4> struct Shared {
  float q[H < 4 ? 4 : H][D];
  float score[H][TILE];
  float most[H], sum[H], scale[H];
  float out[PARTS][H][D];
  int last;
};

/// Rotates `count` vectors of d elements, `apart` from one another, in place; all threads of the block.
DEV void rotate(const AttentionParams& p, float* vectors, int apart, int count, int position) {
  if (position < 0 || position >= p.rope_positions) {
    if (threadIdx.x == 0) raise_fault(p.faults);
    for (int h = 0; h < count; ++h)
      for (int i = threadIdx.x; i < p.k.d; i += blockDim.x) vectors[h * apart + i] = 0.0f;
  } else {
    const int pairs = (int)p.rope_pairs;
#pragma unroll 4
    for (int e = threadIdx.x; e < count * pairs; e += blockDim.x) {
      const int i = e % pairs;
      float* x = vectors + e / pairs * apart;
      const int first = p.rope_mode == 0 ? 2 * i : i, second = p.rope_mode == 0 ? 2 * i + 1 : i + pairs;
      const float2 turn = at<const float2>(p.rope)[(i64)position * pairs + i];
      const float a = x[first], b = x[second];
      x[first] = a * turn.x - b * turn.y;
      x[second] = a * turn.y + b * turn.x;
    }
  }
}

/// Norms of `count` vectors of d elements, `apart` from one another, in place: a warp each. `whole` not 0: the factor of a norm of all heads
/// together, whose weight goes on from head to head.
DEV void norm_heads(float* vectors, int apart, int count, int d, const float* weight, float offset, float epsilon, float whole) {
  for (int h = threadIdx.x >> 5; h < count; h += blockDim.x >> 5) {
    float* x = vectors + h * apart;
    const float* w = whole != 0.0f ? weight + h * d : weight;
    float sum = 0.0f;
    for (int i = threadIdx.x & 31; i < d; i += 32) sum = fmaf(x[i], x[i], sum);
    const float factor = whole != 0.0f ? whole : 1.0f / sqrtf(warp_sum(sum) / (float)d + epsilon);
    for (int i = threadIdx.x & 31; i < d; i += 32) x[i] *= factor * (w[i] + offset);
  }
}
/// The factor of the norm of a row of n elements; all threads of a block.
DEV float row_factor(const float* x, int n, float epsilon) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum = fmaf(x[i], x[i], sum);
  return 1.0f / sqrtf(block_sum(sum) / (float)n + epsilon);
}
/// Those of the one row's queries and of its key, or 0: each head has its own.
DEV float2 row_factors(const AttentionParams& p) {
  if (!p.norms.rows) return make_float2(0.0f, 0.0f);
  const float q = row_factor(at<const float>(p.q), p.heads * p.k.d, p.norms.epsilon_q);
  return make_float2(q, row_factor(at<const float>(p.new_k), p.k.kv_heads * p.k.d, p.norms.epsilon_k));
}
/// Those of a block's queries, of which `first_head` is the first, and, where it has one, of the new key.
DEV void norm_new(const AttentionParams& p, float* queries, int apart, int heads, int first_head, int kv_head, float* key) {
  const float2 whole = row_factors(p);
  norm_heads(queries, apart, heads, p.k.d, at<const float>(p.norms.q) + (p.norms.rows ? first_head * p.k.d : 0), p.norms.offset_q,
             p.norms.epsilon_q, whole.x);
  if (key)
    norm_heads(key, apart, 1, p.k.d, at<const float>(p.norms.k) + (p.norms.rows ? kv_head * p.k.d : 0), p.norms.offset_k, p.norms.epsilon_k,
               whole.y);
  __syncthreads();
}
/// Whether row t is for attention_rows.cu; all threads of a block.
DEV bool is_left(const AttentionParams& p, int t) {
  const int first = t / 128 * 128;
  return p.least_runs && runs_of(p.k, first, min(128, (int)gridDim.z - first)) <= p.least_runs;
}

/// What the softmax sees of a dot product; -inf stays: its page is not there.
__device__ __noinline__ float logit(const AttentionParams& p, float dot, int t, int head, int key, int position) {
  if (dot == -INFINITY_F) return dot;
  float v = dot * p.scale;
  if (p.softcap > 0.0f) v = p.softcap * tanhf(v / p.softcap);
  if (p.mask) {
    const i64 m = (i64)t * p.mask_stride + key;
    if (p.mask_dtype == U8) v = at<const u8>(p.mask)[m] ? v : -INFINITY_F;
    else v = fmaf(alibi_slope(p.max_bias, head, p.heads), load_float(at<const char>(p.mask), p.mask_dtype, m), v);
  }
  return v;
}

/// Element i of row t of the result, if it is one: heads are whole eights where it is an operand.
DEV void store_result(const AttentionParams& p, int t, int i, float v, bool stores) {
  const int size = p.heads * p.v.d;
  if (p.y_columns) store_operand(at<char>(p.y) + operand_row(t, p.y_columns, size / 256), p.y_columns, i, v, p.y_dtype == F16, p.y_places, stores);
  else if (p.y && stores) store_float(at<char>(p.y), p.y_dtype, (i64)t * size + i, v);
}

/// Ends a block: s.out holds `key_groups` unnormalised parts of its heads' outputs, s.most and s.sum their softmax. The last block of
/// `active` joins the parts of all and writes the result.
template <class S>
DEV void finish(const AttentionParams& p, S& s, int active, int split, int t, int first_head, int heads, int key_groups) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, dv = p.v.d;
  if (active > 1) {
    float* parts = at<float>(p.partial) + (((i64)t * p.heads + first_head) * p.splits + split) * (dv + 2);
    for (int e = threadIdx.x; e < heads * dv; e += blockDim.x) {
      const int h = e / dv, i = e % dv;
      float v = 0.0f;
      for (int g = 0; g < key_groups; ++g) v += s.out[g][h][i];
      parts[(i64)h * p.splits * (dv + 2) + i] = v;
    }
    if (threadIdx.x < heads) {
      parts[(i64)threadIdx.x * p.splits * (dv + 2) + dv] = s.most[threadIdx.x];
      parts[(i64)threadIdx.x * p.splits * (dv + 2) + dv + 1] = s.sum[threadIdx.x];
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      u32* counter = at<u32>(p.counters) + (i64)t * p.heads + first_head;
      s.last = atomicAdd(counter, 1u) == (u32)active - 1;
      if (s.last) *counter = 0;
    }
    __syncthreads();
    if (!s.last) return;
    __threadfence();
  }
  // A warp finds what each split of a head counts for; score[h] holds these factors, at most TILE of them.
  for (int h = warp; h < heads; h += 4) {
    const float* parts = at<const float>(p.partial) + ((i64)t * p.heads + first_head + h) * p.splits * (dv + 2) + dv;
    const float sink = p.sinks ? at<const float>(p.sinks)[first_head + h] : -INFINITY_F;
    float most[2], sum[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int k = lane + 32 * j;
      most[j] = active == 1 ? (k == 0 ? s.most[h] : -INFINITY_F) : k < active ? __ldcg(parts + k * (dv + 2)) : -INFINITY_F;
      sum[j] = active == 1 ? (k == 0 ? s.sum[h] : 0.0f) : k < active ? __ldcg(parts + k * (dv + 2) + 1) : 0.0f;
    }
    const float top = fmaxf(sink, warp_max(fmaxf(most[0], most[1])));
    float factor[2], total = 0.0f;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      factor[j] = most[j] == -INFINITY_F ? 0.0f : expf(most[j] - top);
      total = fmaf(sum[j], factor[j], total);
    }
    total = warp_sum(total) + (sink == -INFINITY_F ? 0.0f : expf(sink - top));
    const float inverse = total > 0.0f ? 1.0f / total : total == 0.0f ? 0.0f : total;  // a NaN stays one
    s.score[h][lane] = factor[0] * inverse;
    s.score[h][lane + 32] = factor[1] * inverse;
  }
  __syncthreads();
  // Elements of all heads side by side, FOUR a thread, whose parts are asked for together. Where they are quantised, dv is a multiple of 32 and
  // a warp has one group.
  enum { FOUR = 4 };
  const int all = (heads * dv + 31) / 32 * 32;
  for (int e0 = threadIdx.x; e0 < all; e0 += FOUR * blockDim.x) {
    float v[FOUR] = {};
    const float* parts[FOUR];
    const float* factors[FOUR];
    int place[FOUR];
#pragma unroll
    for (int j = 0; j < FOUR; ++j) {
      const int e = min(e0 + j * (int)blockDim.x, heads * dv - 1), h = e / dv;
      place[j] = e - h * dv;
      factors[j] = s.score[h];
      parts[j] = at<const float>(p.partial) + ((i64)t * p.heads + first_head + h) * p.splits * (dv + 2) + place[j];
    }
    if (active > 1) {
#pragma unroll 4
      for (int k = 0; k < active; ++k)
#pragma unroll
        for (int j = 0; j < FOUR; ++j) {
          const float f = factors[j][k], x = __ldcg(parts[j] + k * (dv + 2));
          v[j] = fmaf(f, f == 0.0f ? 0.0f : x, v[j]);
        }
    } else {
#pragma unroll
      for (int j = 0; j < FOUR; ++j) {
        const int h = min(e0 + j * (int)blockDim.x, heads * dv - 1) / dv;
        for (int g = 0; g < key_groups; ++g) v[j] += s.out[g][h][place[j]];
        v[j] *= factors[j][0];
      }
    }
#pragma unroll
    for (int j = 0; j < FOUR; ++j) {
      const int e = e0 + j * (int)blockDim.x;
      if (e >= all) break;
      const float x = e < heads * dv ? v[j] : 0.0f;
      store_result(p, t, first_head * dv + e, x, e < heads * dv);
      if (p.out.codes) quantise32(x, p.out, (((i64)t * p.heads + first_head) * dv + e) / 32, lane);
    }
  }
}
