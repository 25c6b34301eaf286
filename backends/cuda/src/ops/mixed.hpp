// Products of 2 to 32 rows of f16 activations with quantised weights, by kernels/mixed.cu.
#pragma once

#include "../kernels/mixed.hpp"
#include "../op.hpp"

namespace quern::cuda {

constexpr std::int64_t most_mixed_rows = 32;

/// Whether the kernel takes these weights: a K format in planes, rows of whole blocks.
bool mixed_serves(const Tensor& weights, const CardFacts& card);
/// Fills how the work is shared among blocks and warps, and launches. All but that is filled; rows of parts before the last are a multiple
/// of 16 (under glu: rows of both are equal).
void launch_mixed(MixedParams& p, Launcher& launcher);

}  // namespace quern::cuda
