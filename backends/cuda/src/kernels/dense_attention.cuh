// What attention over dense keys and its gradient share: tiles of rows in shared memory, scores, and products of tiles.
//
// 256 threads as 16 x 16; thread (ty, tx) has rows ty + 16 r and columns tx + 16 c of a product. Rows lie at odd pitches: neighbouring
// rows start in different banks.
#pragma once
#include "alibi.cuh"
#include "dense_attention.hpp"
#include "strided.cuh"

DEV const char* head_row(const Operand& o, i64 b, i64 t, i64 h) { return at<const char>(o.data) + b * o.strides[0] + t * o.strides[1] + h * o.strides[2]; }

/// ROWS rows from `first` on of one head, those from `end` on as zeros. Returns whether this thread met a number that is not finite.
template <int ROWS> DEV bool load_tile(float* to, const Operand& o, i64 b, int first, int end, i64 head, int d) {
  bool strange = false;
  for (int r = threadIdx.x >> 5; r < ROWS; r += 8) {
    const char* row = head_row(o, b, first + r, head);
    for (int i = threadIdx.x & 31; i < d; i += 32) {
      const float v = first + r < end ? load_at(o, row, i) : 0.0f;
      to[r * dense_pitch(d) + i] = v;
      strange = strange || !(fabsf(v) < INFINITY_F);
    }
  }
  return strange;
}

/// What a block has: a tile of rows from `first` on, of the `rows` of its batch or packed example, which begins at b (head_row), and the queries
/// and keys there. Of rows in no example there are none.
struct Extent {
  i64 b;
  int first, rows, queries, keys;
};
/// `rows`: p.queries or p.keys, whose tiles the blocks of x have.
DEV Extent extent_of(const DenseAttentionParams& p, int tile, int rows) {
  if (!p.start) return {blockIdx.z, (int)blockIdx.x * tile, rows, p.queries, p.keys};
  const int* start = at<const int>(p.start);
  if (!*at<const int>(p.valid)) return {0, (int)blockIdx.x * tile, p.queries, 0, 0};
  int e = 0;
  for (int end = p.examples + 1; end - e > 1;) {  // the last example whose tiles begin at or before the block
    const int middle = e + (end - e) / 2;
    if (start[middle] / tile + middle <= (int)blockIdx.x) e = middle;
    else end = middle;
  }
  const int begin = start[e], count = (e < p.examples ? start[e + 1] : p.queries) - begin, seen = e < p.examples ? count : 0;
  return {begin, ((int)blockIdx.x - begin / tile - e) * tile, count, seen, seen};
}
/// The place of a row's sum of dy y.
DEV float* dot_of(const DenseAttentionParams& p, i64 b, i64 t, i64 head) {
  return at<float>(p.dots) + (p.start ? head * p.queries + b + t : (b * p.heads + head) * p.queries + t);
}

/// Keys that queries [first, first + count) see by their position: whole tiles outside of it are left out.
DEV void keys_in_sight(const DenseAttentionParams& p, const Extent& x, int first, int count, int& begin, int& end) {
  const i64 before = p.window > 0 ? first + p.offset - p.window + 1 : 0;
  const i64 behind = p.causal ? first + count + p.offset : x.keys;
  begin = (int)max((i64)0, min((i64)x.keys, before));
  end = (int)max((i64)0, min((i64)x.keys, behind));
}
/// Queries that see keys [first, first + count) by their position.
DEV void queries_in_sight(const DenseAttentionParams& p, const Extent& x, int first, int count, int& begin, int& end) {
  const i64 before = p.causal ? first - p.offset : 0;
  const i64 behind = p.window > 0 ? first + count - 1 + p.window - p.offset : x.queries;
  begin = (int)max((i64)0, min((i64)x.queries, before));
  end = (int)max((i64)0, min((i64)x.queries, behind));
}

/// The logit of a dot product, -inf where the query does not see the key; `bend`: d logit / d (scale dot).
DEV float logit_of(const DenseAttentionParams& p, const Extent& x, float dot, i64 head, i64 t, i64 u, float slope, float& bend) {
  const i64 position = t + p.offset;
  bend = 1.0f;
  if (t >= x.queries || u >= x.keys || (p.causal && u > position) || (p.window > 0 && u <= position - p.window)) return -INFINITY_F;
  float m = 0.0f;
  if (p.mask.data) {
    const char* at_mask = at<const char>(p.mask.data) + x.b * p.mask.strides[0] + head * p.mask.strides[1] + t * p.mask.strides[2] + u * p.mask.strides[3];
    if (p.mask.dtype == U8) m = *at_mask ? 0.0f : -INFINITY_F;
    else m = load_float(at_mask, p.mask.dtype, 0);
    if (m == -INFINITY_F) return m;
  }
  float s = dot * p.scale;
  if (p.softcap > 0.0f) {
    const float t_cap = tanhf(s / p.softcap);
    s = p.softcap * t_cap;
    bend = fmaf(-t_cap, t_cap, 1.0f);
  }
  return fmaf(slope, m, s);
}

/// dots[r][c] = row ty + 16 r of a times row tx + 16 c of b.
template <int T> DEV void multiply_rows(float (*dots)[T], const float* a, const float* b, int d) {
  const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4, pitch = dense_pitch(d);
#pragma unroll
  for (int r = 0; r < T; ++r)
#pragma unroll
    for (int c = 0; c < T; ++c) dots[r][c] = 0.0f;
  for (int i = 0; i < d; ++i) {
    float x[T], y[T];
#pragma unroll
    for (int r = 0; r < T; ++r) {
      x[r] = a[(ty + 16 * r) * pitch + i];
      y[r] = b[(tx + 16 * r) * pitch + i];
    }
#pragma unroll
    for (int r = 0; r < T; ++r)
#pragma unroll
      for (int c = 0; c < T; ++c) dots[r][c] = fmaf(x[r], y[c], dots[r][c]);
  }
}

/// sums[r][c] += sum over the 16 T rows j of b: weight (ty + 16 r, j) times element tx + 16 c of row j. `weights` has rows of 16 T + 1, and
/// with ACROSS is read by columns. `guarded`: a weight of 0 leaves out what may be NaN or infinite.
template <int T, int C, bool ACROSS> DEV void add_products(float (*sums)[C], const float* weights, const float* b, int d, bool guarded) {
  const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4, pitch = dense_pitch(d);
  for (int j = 0; j < 16 * T; ++j) {
    float w[T];
#pragma unroll
    for (int r = 0; r < T; ++r) w[r] = ACROSS ? weights[j * (16 * T + 1) + ty + 16 * r] : weights[(ty + 16 * r) * (16 * T + 1) + j];
#pragma unroll
    for (int c = 0; c < C; ++c) {
      if (tx + 16 * c >= d) break;
      const float x = b[j * pitch + tx + 16 * c];
#pragma unroll
      for (int r = 0; r < T; ++r) sums[r][c] = guarded && w[r] == 0.0f ? sums[r][c] : fmaf(w[r], x, sums[r][c]);
    }
  }
}

/// Rows ty + 16 r of a tile whose first row is `first`, those before `end`.
template <int T, int C> DEV void store_sums(const float (*sums)[C], const Operand& o, i64 b, int first, int end, i64 head, int d) {
  const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
#pragma unroll
  for (int r = 0; r < T; ++r) {
    const int t = first + ty + 16 * r;
    if (t >= end) break;
    char* row = const_cast<char*>(head_row(o, b, t, head));
#pragma unroll
    for (int c = 0; c < C; ++c)
      if (tx + 16 * c < d) store_at(o, row, tx + 16 * c, sums[r][c]);
  }
}
