// Parameters of what keeps count of tokens on the device.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

struct AcceptParams {
  Operand draft, target, live, token, count;  // the first stride is that between rows
  long long k;
};
struct PublishTokenParams {
  Operand token, ring;
  Address number;
  long long rows, entries;
  Live live;
};

}  // namespace quern::cuda
