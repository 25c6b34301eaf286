// What a device that flushes f32 subnormals reads.
#pragma once

#include "data/tensor.hpp"

namespace quern::conformance {

/// Whether an element of f32 or bf16 is subnormal. Other dtypes have none: f16 and the scales of blocks become f32 normals.
bool holds_subnormals(const Tensor& tensor);

/// A copy in which those are zeros of their sign.
Tensor without_subnormals(const Tensor& tensor);

}  // namespace quern::conformance
