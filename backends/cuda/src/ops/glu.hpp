// What glu and its gradient share.
#pragma once

#include "../op.hpp"

#include <limits>

namespace quern::cuda {

/// The first or second half of the rows of a tensor of 2 n elements a row.
inline Tensor half_of(const Tensor& t, bool second) {
  Tensor half = t;
  half.dims[t.rank - 1] /= 2;
  if (second) half.data += static_cast<Address>(half.last() * t.strides[t.rank - 1]);
  return half;
}
/// silu and its slope take alpha under a limit only.
template <class Params>
void read_glu_attributes(const Call& call, Params& p) {
  p.kind = static_cast<int>(call.integer(QUERN_KEY_KIND));
  p.limit = static_cast<float>(call.real(QUERN_KEY_LIMIT));
  p.alpha = p.limit < std::numeric_limits<float>::infinity() ? static_cast<float>(call.real(QUERN_KEY_ALPHA)) : 1.0f;
}

}  // namespace quern::cuda
