// Sums over some dims of a tensor, in f32 over a thread's share and f64 behind that; squares in f64.
//
//   sum_along   a block an output: its threads stride over what is summed
//   sum_across  where neighbouring outputs lie behind each other in memory: a lane an output, eight warps share what is summed
// A long sum is split over blocks; sum_parts adds the parts in their order.
#include "strided.cuh"
#include "sum.hpp"

DEV double warp_sum_double(double v) {
#pragma unroll
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
/// In thread 0 of a block of up to 256.
DEV double block_total(double v) {
  __shared__ double part[8];
  v = warp_sum_double(v);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  double total = 0.0;
  for (int w = 0; w < (int)(blockDim.x + 31) / 32; ++w) total += part[w];
  return total;
}

DEV void finish_sum(const SumParams& p, i64 output, double sum) {
  if (p.splits > 1) {
    at<double>(p.parts)[blockIdx.y * p.kept.count + output] = sum;
    return;
  }
  if (p.kind == sum_mean) sum /= (double)p.reduced.count;
  store_place(p.y, p.kept, output, (float)(p.kind == sum_norm ? sqrt(sum) : sum));
}

/// The sum of elements begin, begin + step, ... of what belongs to an output.
DEV double share_of_sum(const SumParams& p, const char* x, i64 begin, i64 end, i64 step) {
  double total = 0.0;
  float sum = 0.0f;
  int terms = 0;
  for (i64 i = begin; i < end; i += step) {
    const float v = load_float(x + (i64)place(p.inner, p.reduced, i), p.x.dtype, 0);
    if (p.kind == sum_norm) {
      total += (double)v * (double)v;
      continue;
    }
    sum += v;
    if (++terms == 256) {
      total += (double)sum;
      sum = 0.0f;
      terms = 0;
    }
  }
  return total + (double)sum;
}

KERNEL(256) sum_along(const __grid_constant__ SumParams p) {
  wait_for_inputs();
  const i64 share = (p.reduced.count + p.splits - 1) / p.splits, begin = blockIdx.y * share, end = min(p.reduced.count, begin + share);
  const double sum = block_total(share_of_sum(p, place(p.x, p.kept, blockIdx.x), begin + threadIdx.x, end, blockDim.x));
  if (threadIdx.x == 0) finish_sum(p, blockIdx.x, sum);
}

KERNEL(256) sum_across(const __grid_constant__ SumParams p) {
  __shared__ double part[8][32];
  wait_for_inputs();
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const i64 output = (i64)blockIdx.x * 32 + lane;
  const i64 share = (p.reduced.count + p.splits - 1) / p.splits, begin = blockIdx.y * share, end = min(p.reduced.count, begin + share);
  part[warp][lane] = output < p.kept.count ? share_of_sum(p, place(p.x, p.kept, output), begin + warp, end, 8) : 0.0;
  __syncthreads();
  if (warp != 0 || output >= p.kept.count) return;
  double sum = 0.0;
  for (int w = 0; w < 8; ++w) sum += part[w][lane];
  finish_sum(p, output, sum);
}

KERNEL(256) sum_parts(const __grid_constant__ SumParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.kept.count) {
    double sum = 0.0;
    for (int s = 0; s < p.splits; ++s) sum += at<double>(p.parts)[s * p.kept.count + i];
    if (p.kind == sum_mean) sum /= (double)p.reduced.count;
    store_place(p.y, p.kept, i, (float)(p.kind == sum_norm ? sqrt(sum) : sum));
  }
}

KERNEL(256) count_equal(const __grid_constant__ CountParams p) {
  wait_for_inputs();
  double equal = 0.0;  // whole numbers below 2^53
  FOR_EACH(i, p.shape.count)
    equal += *reinterpret_cast<const int*>(place(p.a, p.shape, i)) == *reinterpret_cast<const int*>(place(p.b, p.shape, i)) ? 1.0 : 0.0;
  equal = block_total(equal);
  if (threadIdx.x == 0) at<i64>(p.parts)[blockIdx.x] = (i64)equal;
}
KERNEL(32) count_total(const __grid_constant__ CountParams p) {
  wait_for_inputs();
  i64 count = 0;
  for (int b = threadIdx.x; b < squares_blocks; b += 32) count += at<i64>(p.parts)[b];
#pragma unroll
  for (int o = 16; o; o >>= 1) count += __shfl_xor_sync(~0u, count, o);
  if (threadIdx.x == 0) *at<i64>(p.count) = count;
}

/// A block's share of the squares of tensor blockIdx.y.
KERNEL(256) squares(const __grid_constant__ SquaresParams p) {
  wait_for_inputs();
  double sum = 0.0;
  bool finite = true;
  const auto add = [&](float v) {
    sum += (double)v * (double)v;
    finite = finite && fabsf(v) < INFINITY_F;
  };
  if (p.count == 0) {
    FOR_EACH(i, p.shape.count) add(load_place(p.x, p.shape, i));
  } else {
    const SquaresOf& of = p.of[blockIdx.y];
    FOR_EACH(i, of.count) add(load_float(at<const char>(of.data), of.dtype, i));
  }
  sum = block_total(sum);
  const int all = __syncthreads_and(finite);
  if (threadIdx.x != 0) return;
  const i64 slot = p.first + (i64)blockIdx.y * squares_blocks + blockIdx.x;
  at<double>(p.parts)[slot] = sum;
  reinterpret_cast<int*>(at<double>(p.parts) + p.slots)[slot] = all;
}

KERNEL(256) norm_total(const __grid_constant__ NormTotalParams p) {
  wait_for_inputs();
  double sum = 0.0;
  bool finite = true;
  for (i64 s = threadIdx.x; s < p.slots; s += blockDim.x) {
    sum += at<double>(p.parts)[s];
    finite = finite && reinterpret_cast<const int*>(at<double>(p.parts) + p.slots)[s] != 0;
  }
  sum = block_total(sum);
  const int all = __syncthreads_and(finite);
  if (threadIdx.x != 0) return;
  if (p.norm) *at<float>(p.norm) = (float)sqrt(sum);
  if (p.finite) *at<int>(p.finite) = all;
}
