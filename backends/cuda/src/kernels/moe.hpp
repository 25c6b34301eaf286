// Parameters of routing to experts and of joining their outputs.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

struct RouterParams {
  Shape rows;
  Operand logits, id, weight, dweight, dlogits;  // dweight, dlogits: of the gradient
  Address bias;                                  // f32 [experts] or 0
  long long experts, used;
  int sigmoid, renormalise;
  float scale;
  Address faults;
};
struct CombineParams {
  Shape shape;                          // [t, n]
  Operand x, weight, y;                 // of the first expert
  long long x_next, weight_next, used;  // bytes to the next expert's
};

}  // namespace quern::cuda
