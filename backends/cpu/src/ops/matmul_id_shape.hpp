// What every kernel of matmul_id asks of the shapes of a call.
#pragma once

#include "../kernel.hpp"

#include <limits>
#include <utility>

namespace quern::cpu {

inline Verdict check_matmul_id(const Call& call) {
  const Tensor& a = call.input(0);
  if (a.dims[2] > std::numeric_limits<std::int32_t>::max())
    return Verdict::no(concat("a is ", shape_text(a), "; its rows are shorter than 2^31"));
  return Verdict::yes();
}

}  // namespace quern::cpu
