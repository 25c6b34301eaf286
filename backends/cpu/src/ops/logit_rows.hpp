// Checks that the ops over rows of logits share.
#pragma once

#include "../kernel.hpp"

namespace quern::cpu {

inline Verdict check_logits(const Tensor& x, const Tensor& y) {
  return has_packed_rows(x) && has_packed_rows(y) ? Verdict::yes() : Verdict::no("the rows of x and y are not packed");
}

}  // namespace quern::cpu
