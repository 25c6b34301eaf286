// What softmax and the attention ops have in common.
#pragma once

#include "../op_call.hpp"

namespace quern::graph {

/// The attributes that say which keys a query sees.
inline void attention_attributes_rule(OpCall& call, bool has_query_offset = true) {
  call.flag(QUERN_KEY_CAUSAL);
  if (has_query_offset) call.not_negative(QUERN_KEY_QUERY_OFFSET);
  call.not_negative(QUERN_KEY_WINDOW);
  call.not_negative(QUERN_KEY_MAX_BIAS);
  call.not_negative(QUERN_KEY_SOFTCAP);
}

/// Each kv head serves a whole number of query heads.
inline void head_groups_rule(const OpCall& call, std::size_t q, std::size_t q_dim, std::size_t k, std::size_t k_dim) {
  const std::int64_t heads = call.fixed(q, q_dim);
  const std::int64_t kv_heads = call.fixed(k, k_dim);
  if (kv_heads < 1 || heads % kv_heads != 0)
    call.fail(call.text(q), " but ", call.text(k), ": ", heads, " heads do not divide into groups for ", kv_heads, " kv heads");
}

}  // namespace quern::graph
