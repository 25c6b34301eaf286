// What sums over all elements, over rows and over repeats launch.
#pragma once

#include "../kernels/sum.hpp"
#include "../op.hpp"

namespace quern::cuda {

/// Scratch of each of them, and of count_equal.
std::uint64_t scratch_sum(const Call& call);
/// y is one number where `whole`, else x summed over the dims that y lacks and over its repeats.
void launch_sum(const Call& call, SumKind kind, bool whole, Launcher& launcher);

}  // namespace quern::cuda
