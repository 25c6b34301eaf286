// y = alpha x W^T + bias + beta c in f32 for many rows, weights of any format decoded into shared memory.
//
//   block   64 x 64 of y in steps of 16 along k; 256 threads, 4 x 4 sums each
//   shared  2 x 16 x 68 x 4 B = 8.5 KiB
// And matmul_any: one thread an output, for what has odd strides, batches or transposes.
#include "blocks.cuh"

KERNEL(256) gemm_exact(const __grid_constant__ GemmParams p) {
  __shared__ float a[16][68], b[16][68];
  wait_for_inputs();
  const int m0 = blockIdx.y * 64, n0 = blockIdx.x * 64, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < p.k; k0 += 16) {
    if (threadIdx.x < 64) {
      float w[16] = {};
      const int n = n0 + threadIdx.x;
      if (n < p.n) decode16(p.w, ((i64)n * p.k + k0) / 16, w);
#pragma unroll
      for (int i = 0; i < 16; ++i) b[i][threadIdx.x] = w[i];
    } else {
      for (int e = threadIdx.x - 64; e < 64 * 16; e += 192) {
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

KERNEL(256) matmul_any(const __grid_constant__ MatmulParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.m * p.n * p.batch) {
    const i64 n = i % p.n, m = i / p.n % p.m;
    i64 batch = i / (p.n * p.m);
    const char *a = at<const char>(p.a.data), *b = at<const char>(p.b.data), *c = at<const char>(p.c.data);
    char* y = at<char>(p.y.data);
#pragma unroll
    for (int d = 3; d >= 0; --d) {
      const i64 at_dim = batch % p.y.dims[d];
      batch /= p.y.dims[d];
      a += at_dim * p.a.strides[d];
      b += at_dim / p.group[d] * p.b.strides[d];
      c += at_dim * p.c.strides[d];
      y += at_dim * p.y.strides[d];
    }
    a += m * p.a.strides[p.transpose_a ? 5 : 4];
    b += n * p.b.strides[p.transpose_b ? 5 : 4];
    const i64 a_step = p.a.strides[p.transpose_a ? 4 : 5], b_step = p.b.strides[p.transpose_b ? 4 : 5];
    float block[2] = {0.0f, 0.0f};  // sums of 256, then of those: the error grows with the root of k
    for (i64 k = 0; k < p.k; ++k) {
      block[1] = fmaf(load_float(a + k * a_step, p.a.dtype, 0), load_float(b + k * b_step, p.b.dtype, 0), block[1]);
      if ((k & 255) == 255) {
        block[0] += block[1];
        block[1] = 0.0f;
      }
    }
    float v = (block[0] + block[1]) * p.alpha;
    if (p.bias) v += at<const float>(p.bias)[n];
    if (p.c.data) v = fmaf(p.beta, load_float(c + m * p.c.strides[4] + n * p.c.strides[5], p.c.dtype, 0), v);
    store_float(y + m * p.y.strides[4] + n * p.y.strides[5], p.y.dtype, 0, v);
  }
}
