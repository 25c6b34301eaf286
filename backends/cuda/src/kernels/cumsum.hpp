// Parameters of running sums along rows.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

struct CumsumParams {
  Shape rows;
  Operand x, y;
  long long n;
};

}  // namespace quern::cuda
