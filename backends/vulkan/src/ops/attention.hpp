// The attention kernel of fused schedules.
#pragma once

#include "op.hpp"

namespace quern::vulkan {

/// Causal, over caches of floats whose rows are read four elements at a time, without masks, sinks or position biases.
bool fused_attention_serves(const Call& call, const CardFacts& card);
void launch_fused_attention(const Call& call, Launcher& launcher);

}  // namespace quern::vulkan
