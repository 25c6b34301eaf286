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
/// `unrotated`: of one row, whose query the call's first input is not yet; null: it is, and the caches hold its key and value.
/// `next`: where the int8 activations of its one row go too, or 0.
void launch_fused_attention(const Call& call, const Unrotated* unrotated, std::uint64_t next, Launcher& launcher);


/// Of many rows, over caches of f16, by cooperative matrices: heads of 16 to 128 elements, keys as long as values.
bool matrix_attention_serves(const Call& call, const CardFacts& card);
/// Whether there are more rows than sequences: in a step that only decodes, each row has keys of its own, which a tile goes through in turn.
bool matrix_attention_pays(const Call& call);
void launch_matrix_attention(const Call& call, Launcher& launcher);

}  // namespace quern::vulkan
