// The attention kernel of fused schedules.
#pragma once

#include "op.hpp"

namespace quern::vulkan {

/// What all kernels of attention over pages are told; of a rotation nothing.
AttentionParams attention_params(const Call& call, Launcher& launcher);

/// Causal, over caches of floats whose rows are read four elements at a time, without masks, sinks or position biases.
bool fused_attention_serves(const Call& call, const CardFacts& card);
/// What rope_kv.comp would read for the one row of the call.
struct Unrotated {
  Tensor q, k, v, table;
  std::int64_t mode = 0;
};
/// Queries and keys rotated, and keys and values written, by one kernel before this attention, whose first input the rotated queries are.
void launch_rope_kv(const Call& attention, const Unrotated& from, Launcher& launcher);
/// Bytes for the sums of parts of the keys, at `Call::scratch` of a launch.
std::uint64_t fused_attention_scratch(const Call& call, const CardFacts& card);
/// `unrotated`: of one row, whose query the call's first input is not yet; null: it is, and the caches hold its key and value.
void launch_fused_attention(const Call& call, const Unrotated* unrotated, Launcher& launcher);

/// Of many rows, over caches of f16, by cooperative matrices: heads of 16 to 128 elements, keys as long as values.
bool matrix_attention_serves(const Call& call, const CardFacts& card);
/// Whether there are rows enough. Of several sequences those rows that few others share a sequence with have a kernel beside it (rows_together.glsl).
bool matrix_attention_pays(const Call& call);
/// Bytes for the sums of parts of the keys, at `Call::scratch` of a launch.
std::uint64_t matrix_attention_scratch(const Call& call, const CardFacts& card);
void launch_matrix_attention(const Call& call, Launcher& launcher);

}  // namespace quern::vulkan
