// attention_ragged, attention_ragged_backward: whether the starts of packed examples ascend from 0 within the rows. Attention itself and its
// gradients are those of attention_dense.cu and attention_backward.cu, whose tiles then lie within examples.
#include "dense_attention.hpp"
#include "prelude.cuh"

/// One block.
KERNEL(256) attention_starts(const __grid_constant__ AttentionStartsParams p) {
  wait_for_inputs();
  const int* start = at<const int>(p.start);
  bool wrong = start[0] != 0;
  for (int e = threadIdx.x; e < p.examples; e += 256) wrong = wrong || start[e + 1] < start[e] || start[e + 1] > p.rows;
  wrong = __syncthreads_or(wrong);
  if (threadIdx.x != 0) return;
  *at<int>(p.valid) = !wrong;
  if (wrong) raise_fault(p.faults);
}
