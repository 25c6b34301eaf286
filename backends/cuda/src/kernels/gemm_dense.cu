// y = x W^T + c for 16-bit x and W on the matrix units, f32 sums: what serves many rows where cuBLASLt is not installed.
//
//   block   128 x 128 of y in steps of 32 along k; 8 warps, each 64 x 32.
//   shared  4 stages x (128 + 128) x 64 B = 64 KiB, filled by asynchronous copies three steps ahead.
//   rows    Of an operand in rows of k: chunk j (16 bytes) of row r lies at j ^ (r / 2 % 4).
//   turned  32 rows of 128 numbers: chunk j of row r lies at j ^ (r % 8), and the loads turn what they read.
//   banks   The eight rows of one matrix load share no bank in either.
#include "gemm.hpp"
#include "matrix.cuh"

#if __CUDA_ARCH__ >= 800
enum { STAGES = dense_stages, STAGE = dense_stage, TILE = dense_tile };

template <bool HALF> DEV void gemm_dense(const DenseParams& p, char* memory) {
  wait_for_inputs();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, m0 = blockIdx.y * TILE, n0 = blockIdx.x * TILE;
  const int wm = warp % 2 * 64, wn = warp / 2 * 32, steps = (p.k + 31) / 32;
  const auto fetch = [&](int step) {
    const u32 base = smem(memory) + step % STAGES * STAGE;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bool w = i >= 2;
      const DenseOperand& o = w ? p.w : p.x;
      const int e = threadIdx.x + i % 2 * 256, first = w ? n0 : m0, rows = w ? p.n : p.m;
      const int r = o.turned ? e / 16 : e / 4, j = o.turned ? e & 15 : e & 3;
      const int row = first + (o.turned ? j * 8 : r), k = step * 32 + (o.turned ? r : j * 8);
      const int left = o.turned ? rows - row : p.k - k;  // elements from here to the end of what is stored there
      const bool there = row < rows && k < p.k;
      const u16* from = at<const u16>(o.data) + (there ? (i64)(o.turned ? k : row) * o.row + (o.turned ? row : k) : 0);
      copy_async(base + (w ? 128 * 64 : 0) + (o.turned ? r * 256 + (j ^ (r & 7)) * 16 : r * 64 + (j ^ (r / 2 & 3)) * 16), from,
                 there ? min(left, 8) * 2 : 0);
    }
  };
  float acc[4][4][4] = {};
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < steps) fetch(s);
    commit_copies();
  }
  for (int step = 0; step < steps; ++step) {
    wait_copies<STAGES - 2>();
    __syncthreads();
    if (step + STAGES - 1 < steps) fetch(step + STAGES - 1);
    commit_copies();
    const u32 a_at = smem(memory) + step % STAGES * STAGE, b_at = a_at + 128 * 64;
#pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
      u32 a[4][4], b[2][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (p.x.turned) {
          const int r = kk * 16 + lane / 16 * 8 + lane % 8, j = wm / 8 + i * 2 + lane / 8 % 2;
          load_transposed(a[i], a_at + r * 256 + (j ^ (r & 7)) * 16);
        } else {
          const int r = wm + i * 16 + lane % 16, j = kk * 2 + lane / 16;
          load_matrices(a[i], a_at + r * 64 + (j ^ (r / 2 & 3)) * 16);
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (p.w.turned) {
          const int r = kk * 16 + lane % 16, j = wn / 8 + i * 2 + lane / 16;
          load_transposed(b[i], b_at + r * 256 + (j ^ (r & 7)) * 16);
        } else {
          const int r = wn + i * 16 + lane % 8 + lane / 16 * 8, j = kk * 2 + lane / 8 % 2;
          load_matrices(b[i], b_at + r * 64 + (j ^ (r / 2 & 3)) * 16);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) multiply16<HALF>(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const i64 m = m0 + wm + i * 16 + lane / 4 + half * 8, n = n0 + wn + j * 8 + lane % 4 * 2;
        if (m >= p.m) continue;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (n + e >= p.n) continue;
          float y = acc[i][j][half * 2 + e] * p.alpha;
          if (p.bias) y += at<const float>(p.bias)[n + e];
          if (p.c) y += p.y16 ? HALF ? from_half(at<const u16>(p.c)[m * p.row + n + e]) : from_bf16(at<const u16>(p.c)[m * p.row + n + e])
                              : at<const float>(p.c)[m * p.row + n + e];
          if (p.y16) at<u16>(p.y)[m * p.row + n + e] = HALF ? to_half(y) : to_bf16(y);
          else at<float>(p.y)[m * p.row + n + e] = y;
        }
      }
}
#endif

KERNEL(256) gemm_dense_bf16(const __grid_constant__ DenseParams p) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(128) char memory[];
  gemm_dense<false>(p, memory);
#endif
}
KERNEL(256) gemm_dense_f16(const __grid_constant__ DenseParams p) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(128) char memory[];
  gemm_dense<true>(p, memory);
#endif
}
