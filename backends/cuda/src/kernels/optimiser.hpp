// Parameters of the optimisers' steps.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

struct OptimiserParams {
  Shape shape;
  Operand gradient, w, m, v, master;  // of sgd: m is momentum
  Address step, lr, scale;            // scale 0: 1
  double beta1, beta2, epsilon;
  float decay, momentum;
  Live live;
  long long elements_a_row;
  Address faults;
};
struct ClipParams {
  Address norm, loss_scale, scale;  // loss_scale 0: 1
  float most;
};

}  // namespace quern::cuda
