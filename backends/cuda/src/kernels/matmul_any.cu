// matmul of any strides, transposes, batches and formats. The grid: tiles of n, tiles of m, batches.
#include "matmul.hpp"
#include "strided.cuh"
#include "tile_product.cuh"

KERNEL(256) matmul_any(const __grid_constant__ MatmulAnyParams p) {
  __shared__ ProductTile s;
  wait_for_inputs();
  const i64 m0 = (i64)blockIdx.y * TILE_ROWS, n0 = (i64)blockIdx.x * TILE_ROWS;
  for (i64 batch = blockIdx.z; batch < p.batches.count; batch += gridDim.z) {
    __syncthreads();
    if (threadIdx.x < TILE_ROWS) {
      const i64 m = m0 + threadIdx.x, n = n0 + threadIdx.x;
      s.a_rows[threadIdx.x] = m < p.m ? place(p.a, p.batches, batch) + m * p.a_row : nullptr;
      s.b_rows[threadIdx.x] = n < p.n ? place(p.b, p.batches, batch) + n * p.b_row : nullptr;
    }
    float sums[4][4] = {};
    const bool a_rows_first = p.a_row < p.a.step, b_rows_first = p.b_row < p.b.step;
    multiply_tiles(sums, s, p.k, [&](i64 k0) {
      fill_floats(s.a, s.a_rows, p.a.dtype, a_rows_first, k0, p.k, EvenSteps{p.a.step});
      if (p.b_turned) fill_turned_blocks(s.b, place(p.b, p.batches, batch), p.b.step, p.pieces, p.b_planes, k0, p.k, n0, p.n);
      else if (p.b_blocks) fill_blocks(s.b, s.b_rows, p.pieces, k0, p.b_planes ? n0 * (p.k / 16) : -1, p.k / 16);
      else fill_floats(s.b, s.b_rows, p.b.dtype, b_rows_first, k0, p.k, EvenSteps{p.b.step});
    });
    const char* c = p.c.data ? place(p.c, p.batches, batch) : nullptr;
    char* y = place(p.y, p.batches, batch);
    each_output(sums, [&](int row, int column, float sum) {
      const i64 m = m0 + row, n = n0 + column;
      if (m >= p.m || n >= p.n) return;
      float v = sum * p.alpha;
      if (p.bias) v += at<const float>(p.bias)[n];
      if (c) v = fmaf(p.beta, load_at(p.c, c + m * p.c_row, n), v);
      store_at(p.y, y + m * p.y_row, n, v);
    });
  }
}
