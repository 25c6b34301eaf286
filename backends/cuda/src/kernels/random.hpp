// Parameters of random numbers and dropout.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

struct RandomParams {
  Shape shape;
  Operand x, y;  // x: of dropout
  Address seed, step;
  unsigned salt;
  float p;
};

}  // namespace quern::cuda
