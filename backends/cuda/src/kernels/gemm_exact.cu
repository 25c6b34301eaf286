// y = alpha x W^T + bias + beta c in f32 for many rows, weights of any format decoded into shared memory.
//
//   block   64 x 64 of y in steps of 16 along k; 256 threads, 4 x 4 sums each
//   shared  2 x 16 x 68 x 4 B = 8.5 KiB
#include "blocks.cuh"
#include "gemm.hpp"

KERNEL(256) gemm_exact(const __grid_constant__ GemmParams p) {
  enum { TILE = gemm_exact_tile };
  __shared__ float a[16][TILE + 4], b[16][TILE + 4];
  wait_for_inputs();
  const int m0 = blockIdx.y * TILE, n0 = blockIdx.x * TILE, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < p.k; k0 += 16) {
    if (threadIdx.x < TILE) {
      float w[16] = {};
      const int n = n0 + threadIdx.x;
      if (n < p.n) decode16(p.w, ((i64)n * p.k + k0) / 16, w);
#pragma unroll
      for (int i = 0; i < 16; ++i) b[i][threadIdx.x] = w[i];
    } else {
      for (int e = threadIdx.x - TILE; e < TILE * 16; e += 256 - TILE) {
        const int m = e / 16, i = e % 16;
        a[i][m] = m0 + m < p.m ? load_float(at<const char>(p.x), p.x_dtype, (i64)(m0 + m) * p.k + k0 + i) : 0.0f;
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float av[4], bv[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        av[j] = a[i][ty * 4 + j];
        bv[j] = b[i][tx * 4 + j];
      }
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) acc[r][c] = fmaf(av[r], bv[c], acc[r][c]);
    }
    __syncthreads();
  }
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c) {
      const i64 m = m0 + ty * 4 + r, n = n0 + tx * 4 + c;
      if (m >= p.m || n >= p.n) continue;
      float y = acc[r][c] * p.alpha;
      if (p.bias) y += at<const float>(p.bias)[n];
      if (p.c) y = fmaf(p.beta, load_float(at<const char>(p.c), p.c_dtype, m * p.n + n), y);
      store_float(at<char>(p.y), p.y_dtype, m * p.n + n, y);
    }
}
