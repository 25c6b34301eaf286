// The attention kernel of fused schedules.
#pragma once

#include "op.hpp"

namespace quern::vulkan {

/// Causal, over caches of floats whose rows are read four elements at a time, without masks, sinks or position biases.
bool fused_attention_serves(const Call& call, const CardFacts& card);
/// What rope_kv.comp would read for the one row of the call.
struct Unrotated {
  Tensor q, k, v, table;
  std::int64_t mode = 0;
};
/// Queries and keys rotated, and keys and values written, by one kernel before this attention, whose first input the rotated queries are.
void launch_rope_kv(const Call& attention, const Unrotated& from, Launcher& launcher);
/// `unrotated`: of one row, whose query the call's first input is not yet; null: it is, and the caches hold its key and value.
void launch_fused_attention(const Call& call, const Unrotated* unrotated, Launcher& launcher);

/// Of many rows, over caches of f16, by cooperative matrices: heads of 16 to 128 elements, keys as long as values.
bool matrix_attention_serves(const Call& call, const CardFacts& card);
/// Whether there are many rows, of one sequence: rows of others have keys of their own, which a tile would go through in turn.
bool matrix_attention_pays(const Call& call);
void launch_matrix_attention(const Call& call, Launcher& launcher);

}  // namespace quern::vulkan
