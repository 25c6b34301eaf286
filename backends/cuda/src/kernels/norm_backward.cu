// Gradients of rms_norm, layer_norm and l2_norm. With g = dy (weight + offset), c = x - mean, r = 1 / root(mean(c^2) + epsilon):
//
//   dx = r g - c r^3 mean(g c) - r mean(g)      dweight = sum over rows of dy c r      dbias = sum over rows of dy
// Where sums over rows are wanted, a first pass leaves each row's statistics, norm_backward_sums reads them, and dx comes last: it may
// lie in the memory of x or dy.
#include "norm.hpp"
#include "strided.cuh"

DEV bool row_is_live(const NormBackwardParams& p, i64 row) { return is_live(p.live, row / p.rows_a_live); }

KERNEL(256) norm_backward_rows(const __grid_constant__ NormBackwardParams p) {
  wait_for_inputs();
  const i64 row = blockIdx.x;
  if (!row_is_live(p, row)) return;
  const char *x = place(p.x, p.rows, row), *dy = place(p.dy, p.rows, row);
  const auto gradient = [&](i64 i) { return load_at(p.dy, dy, i) * (p.weight ? at<const float>(p.weight)[i] + p.offset : 1.0f); };
  float4* stats = at<float4>(p.stats) + row;
  float mean = 0.0f, inverse, dot, mean_g = 0.0f;
  if (p.stats && !p.first_pass) {
    mean = stats->x;
    inverse = stats->y;
    dot = stats->z;
    mean_g = stats->w;
  } else {
    const float n = p.kind == norm_l2 ? 1.0f : (float)p.h;
    if (p.kind == norm_layer) {
      float sum = 0.0f, sum_g = 0.0f;
      for (i64 i = threadIdx.x; i < p.h; i += blockDim.x) {
        sum += load_at(p.x, x, i);
        sum_g += gradient(i);
      }
      mean = block_sum(sum) / n;
      mean_g = block_sum(sum_g) / n;
    }
    float squares = 0.0f, products = 0.0f;
    for (i64 i = threadIdx.x; i < p.h; i += blockDim.x) {
      const float c = load_at(p.x, x, i) - mean;
      squares = fmaf(c, c, squares);
      products = fmaf(gradient(i), c, products);
    }
    squares = block_sum(squares);
    dot = block_sum(products) / n;
    const float length = sqrtf(squares);
    inverse = p.kind == norm_l2 ? 1.0f / (length < p.epsilon ? p.epsilon : length) : 1.0f / sqrtf(squares / n + p.epsilon);
    if (p.kind == norm_l2 && length < p.epsilon) dot = 0.0f;
    if (p.first_pass) {
      if (threadIdx.x == 0) *stats = make_float4(mean, inverse, dot, mean_g);
      return;
    }
  }
  char* dx = place(p.dx, p.rows, row);
  for (i64 i = threadIdx.x; i < p.h; i += blockDim.x) {
    const float c = load_at(p.x, x, i) - mean;
    store_at(p.dx, dx, i, inverse * (gradient(i) - mean_g - (c * inverse) * (dot * inverse)));
  }
}

/// dweight and dbias: a lane a column, eight warps and blockIdx.y share the rows.
KERNEL(256) norm_backward_sums(const __grid_constant__ NormBackwardParams p) {
  __shared__ double part[2][8][32];
  wait_for_inputs();
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const i64 column = (i64)blockIdx.x * 32 + lane, share = (p.rows.count + p.splits - 1) / p.splits;
  const i64 begin = blockIdx.y * share, end = min(p.rows.count, begin + share);
  double weight = 0.0, bias = 0.0;
  if (column < p.h) {
    float partial_weight = 0.0f, partial_bias = 0.0f;
    int terms = 0;
    for (i64 row = begin + warp; row < end; row += 8) {
      if (!row_is_live(p, row)) continue;
      const float4 stats = at<const float4>(p.stats)[row];
      const float dy = load_at(p.dy, place(p.dy, p.rows, row), column), c = load_at(p.x, place(p.x, p.rows, row), column) - stats.x;
      partial_weight = fmaf(dy, c * stats.y, partial_weight);
      partial_bias += dy;
      if (++terms == 64) {
        weight += (double)partial_weight;
        bias += (double)partial_bias;
        partial_weight = partial_bias = 0.0f;
        terms = 0;
      }
    }
    weight += (double)partial_weight;
    bias += (double)partial_bias;
  }
  part[0][warp][lane] = weight;
  part[1][warp][lane] = bias;
  __syncthreads();
  if (warp > 1 || column >= p.h) return;
  double sum = 0.0;
  for (int w = 0; w < 8; ++w) sum += part[warp][w][lane];
  at<double>(p.parts)[((i64)blockIdx.y * 2 + warp) * p.h + column] = sum;
}

KERNEL(256) norm_backward_totals(const __grid_constant__ NormBackwardParams p) {
  wait_for_inputs();
  if (p.live.count == 1 && !is_live(p.live, 0)) return;
  FOR_EACH(i, 2 * p.h) {
    const i64 column = i % p.h;
    float* to = at<float>(i < p.h ? p.dweight : p.dbias);
    if (!to) continue;
    double sum = p.accumulate ? (double)to[column] : 0.0;
    for (int s = 0; s < p.splits; ++s) sum += at<double>(p.parts)[(i64)s * 2 * p.h + i];
    to[column] = (float)sum;
  }
}
