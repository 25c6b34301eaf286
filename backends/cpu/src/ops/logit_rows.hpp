// Checks that the ops over rows of logits share.
#pragma once

#include "../kernel.hpp"

namespace quern::cpu {

inline Verdict check_logits(const TensorView& x, const TensorView& y) {
  return rows_are_packed(x) && rows_are_packed(y) ? Verdict::yes() : Verdict::no("the rows of x and y are not packed");
}

}  // namespace quern::cpu
