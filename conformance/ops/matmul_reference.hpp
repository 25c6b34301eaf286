// The f64 reference of matmul, and its bounds.
#pragma once

#include "ops/family.hpp"

namespace quern::conformance {

/// Inputs a b bias? c?. All outputs up to 2^24 multiply-adds or where the rows of a are sparse; beyond that 4096 seeded outputs and the
/// crossings of all tile edges.
void matmul_reference(const ReferenceCall& call, Expected& expected);

/// Half a step of the widest conversion of QUERN_CONVERT_... bits `allowed`, for each element of a row that meets weights of dtype `b`:
/// int8 the largest |a| of the block of weights / 254 (blocks are those of the format), bf16 2^-8 |a|, f16 and tf32 2^-11 |a|.
std::vector<double> conversion_steps(const std::vector<double>& row, std::uint32_t allowed, quern_dtype b);

/// What a node with weights of dtype `b` allows in fast numerics, as sessions send it.
std::uint32_t weight_conversions(quern_dtype b);

}  // namespace quern::conformance
