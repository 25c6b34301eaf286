// The gradient of sums: each element takes that of its sum.
#pragma once

#include "../gradient_call.hpp"
#include "quern/graph/ops/copy.hpp"

namespace quern::graph::gradients {

/// Gives the input `dy`, which has one element for all that was summed, repeated to the input's shape.
inline void repeated(GradientCall& call, ValueId dy) {
  const Shape shape = call.shape(0);
  dy = call.as(dy, call.sum_dtype(0));
  call.give(0, shape.empty() ? call.reshaped(dy, shape) : ops::repeat(call.graph(), dy, shape, call.how()));
}

}  // namespace quern::graph::gradients
