// Products of one row by kernels/rings.cu: whether it serves them, and how much a warp has under way.
#pragma once

#include "matmul.hpp"

namespace quern::cuda {

/// Whether rows of k weights have this kernel on the card, whatever other formats are in the same launch.
bool rings_serve(quern_dtype dtype, std::int64_t k, const CardFacts& card);
/// Whether it was launched. Weights of f16 and bf16 want raw activations.
bool launch_rings(const GemvParams& g, const RawInput& raw, Launcher& launcher);

}  // namespace quern::cuda
