// The slopes of ALiBi (Press et al. 2021): powers of 2^(-max_bias / n), n the power of two below the heads, odd steps of 2 n for the rest.
#pragma once
#include "prelude.cuh"

DEV float alibi_slope(float max_bias, i64 head, i64 heads) {
  if (!(max_bias > 0.0f)) return 1.0f;
  const int n = 1 << (31 - __clz((int)heads));
  return head < n ? exp2f(-max_bias * (float)(head + 1) / (float)n) : exp2f(-max_bias * 0.5f * (float)(2 * (head - n) + 1) / (float)n);
}
