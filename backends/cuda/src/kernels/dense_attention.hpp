// Parameters of attention over dense keys and values, and of its gradient.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

constexpr int dense_pitch(int d) { return d | 1; }  // the distance of rows of d floats in shared memory: neighbours use different banks

struct DenseAttentionParams {
  Operand q, k, v, y;      // [b, t or u, heads, d]: strides of the first three
  Operand mask;            // strides over b, heads, t, u
  Operand lse;             // [b, t, heads] f32; may be absent in the forward pass
  Operand dy, dq, dk, dv;  // of the gradient
  Address sinks;           // f32 [heads] or 0
  Address dots;            // f32 [b, heads, t]: sums of dy y
  int queries, keys, heads, kv_heads, d, dv_size;
  int causal, window;
  long long offset;
  float scale, softcap, max_bias;
};

}  // namespace quern::cuda
