// f32 rows to int8 codes with a scale for each 32, the sums of both halves, and (for a norm to come) the sum of squares.
//
// A warp takes 32 elements; scale = max |x| / 127. With a weight, x * (weight + offset) is quantised, while the sum of squares
// is that of x: the norm's factor is the same for a whole row, so who multiplies by the codes applies it to the result.
#include "quantise.cuh"

KERNEL(256) quantise(const __grid_constant__ QuantiseParams p) {
  // The next kernel starts when this one's inputs are there: so what it reads before its wait was written before them (decode.cpp, early).
  wait_previous();
  start_next();
  const int groups = p.k / 32, group = blockIdx.x * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  const int t = blockIdx.y;
  if (group >= groups) return;
  const float x = at<const float>(p.x)[(i64)t * p.k + group * 32 + lane];
  const float factor = p.weight ? at<const float>(p.weight)[group * 32 + lane] + p.offset : 1.0f;
  quantise32(x * factor, p.out, (i64)t * groups + group, lane);
  if (p.out.sums) {
    const float squares = warp_sum_of_squares(x);
    if (lane == 0) at<float>(p.out.sums)[(i64)t * p.out.sum_count + group] = squares;
  }
}
