// Matmul by packed panels, for any transposes and any dtype of b: what forward and backward products of many rows take.
#pragma once

#include "vectorised.hpp"

namespace quern::cpu {

/// Does the blocked product fit this call, whose shapes were checked?
Verdict blocked_verdict(const Call& call);
std::uint64_t blocked_scratch(const Call& call) noexcept;
void multiply_in_blocks(const Call& call, Context& context, const Vectors& vectors) noexcept;

}  // namespace quern::cpu
