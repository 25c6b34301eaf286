// What kernels that give a row to a block share.
#pragma once
#include "strided.cuh"

/// The largest of a block's numbers, in every thread; a NaN wins.
DEV float block_max_nan(float most, bool nan) {
  const float largest = block_max(most);
  return __syncthreads_or(nan) ? __int_as_float(0x7fc00000) : largest;
}

struct RowMaximum {
  float most = -INFINITY_F;
  bool nan = false;
  DEV void add(float v) {
    most = fmaxf(most, v);
    nan = nan || v != v;
  }
  DEV float of_block() const { return block_max_nan(most, nan); }
};

/// log of the sum of exp of a row; infinite where the largest is, NaN where an element is.
DEV float row_log_sum_exp(const Operand& x, const char* row, i64 n) {
  RowMaximum maximum;
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) maximum.add(load_at(x, row, i));
  const float most = maximum.of_block();
  if (most != most || fabsf(most) == INFINITY_F) return most;
  float sum = 0.0f;
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += expf(load_at(x, row, i) - most);
  return most + logf(block_sum(sum));
}
