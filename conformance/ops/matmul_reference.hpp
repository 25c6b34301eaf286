// The f64 reference of matmul, and its bounds.
#pragma once

#include "ops/family.hpp"

namespace quern::conformance {

/// Inputs a b bias? c?. All outputs up to 2^24 multiply-adds or where the rows of a are sparse; beyond that 4096 seeded outputs and the
/// crossings of all tile edges.
void matmul_reference(const ReferenceCall& call, Expected& expected);

}  // namespace quern::conformance
