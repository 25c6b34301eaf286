// Parameters of softmax, its gradient, and reductions of rows.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

struct SoftmaxParams {
  Shape rows;
  Operand x, mask, y;
  Address sinks;  // f32 [heads] or 0
  long long q, n, heads;
  float scale, softcap, max_bias;
  int causal, window;
  long long query_offset;
};
struct SoftmaxBackwardParams {
  Shape rows;
  Operand y, dy, dx;
  long long n;
  float scale;
};
struct RowReduceParams {
  Shape rows;
  Operand x, y;
  long long n;
};

}  // namespace quern::cuda
