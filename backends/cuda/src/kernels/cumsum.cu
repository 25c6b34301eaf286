// cumsum: running sums along rows, one block a row in tiles of 1024 elements: a scan in f32 within a tile, what lies before it in f64.
#include "cumsum.hpp"
#include "strided.cuh"

KERNEL(256) cumsum(const __grid_constant__ CumsumParams p) {
  __shared__ float totals[8];
  wait_for_inputs();
  const char* x = place(p.x, p.rows, blockIdx.x);
  char* y = place(p.y, p.rows, blockIdx.x);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  double before = 0.0;
  for (i64 tile = 0; tile < p.n; tile += 1024) {
    float v[4], sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const i64 i = tile + threadIdx.x * 4 + j;
      v[j] = sum += i < p.n ? load_at(p.x, x, i) : 0.0f;
    }
    float scan = sum;  // of the threads up to this one
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
      const float left = __shfl_up_sync(~0u, scan, o);
      if (lane >= o) scan += left;
    }
    const float left = __shfl_up_sync(~0u, scan, 1);
    if (lane == 31) totals[warp] = scan;
    __syncthreads();
    float offset = 0.0f, all = 0.0f;
    for (int w = 0; w < 8; ++w) {
      if (w < warp) offset += totals[w];
      all += totals[w];
    }
    if (lane > 0) offset += left;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const i64 i = tile + threadIdx.x * 4 + j;
      if (i < p.n) store_at(p.y, y, i, (float)(before + (double)(offset + v[j])));
    }
    before += (double)all;
    __syncthreads();
  }
}
