// Paged attention as the op and the fused decode step launch it.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

/// Fills everything but the fused parts. Splits of the keys and their scratch are chosen for `rows` rows.
AttentionParams attention_params(const Call& call, Launcher& launcher);
std::uint64_t attention_scratch(const Call& call);
void launch_attention(const AttentionParams& params, std::int64_t rows, Launcher& launcher);

}  // namespace quern::cuda
