// What softmax and the attention ops have in common.
#pragma once

#include "../gradient_call.hpp"
#include "../op_call.hpp"

#include <initializer_list>

namespace quern::graph {

/// The attributes that all of them have.
inline void score_attributes_rule(OpCall& call) {
  call.flag(QUERN_KEY_CAUSAL);
  call.not_negative(QUERN_KEY_WINDOW);
  call.not_negative(QUERN_KEY_SOFTCAP);
}

/// The same, and those of masks.
inline void attention_attributes_rule(OpCall& call, bool has_query_offset = true) {
  score_attributes_rule(call);
  if (has_query_offset) call.not_negative(QUERN_KEY_QUERY_OFFSET);
  call.not_negative(QUERN_KEY_MAX_BIAS);
}

/// Each kv head serves a whole number of query heads.
inline void head_groups_rule(const OpCall& call, std::size_t q, std::size_t q_dim, std::size_t k, std::size_t k_dim) {
  const std::int64_t heads = call.fixed(q, q_dim);
  const std::int64_t kv_heads = call.fixed(k, k_dim);
  if (kv_heads < 1 || heads % kv_heads != 0)
    call.fail(call.text(q), " but ", call.text(k), ": ", heads, " heads do not divide into groups for ", kv_heads, " kv heads");
}

/// The gradient of an attention whose inputs 0 to 2 are q, k and v, and whose outputs are y and lse: a node of `backward` with q, k, v, the
/// inputs `before`, y, lse, dy and the inputs `behind`.
inline void attention_gradient(GradientCall& call, std::uint32_t backward, std::initializer_list<std::size_t> before,
                               std::initializer_list<std::size_t> behind) {
  constexpr std::size_t y = 0, lse = 1;
  if (call.dy(lse) != no_value) call.fail("has no gradient for its output lse, which the loss reads");
  if (call.node().outputs[lse] == no_value) call.fail("needs its output lse for the gradient; do not skip it");
  std::vector<ValueId> inputs = {call.in(0), call.in(1), call.in(2)};
  for (const std::size_t i : before) inputs.push_back(call.in(i));
  inputs.insert(inputs.end(), {call.out(y), call.out(lse), call.dy(y)});
  for (const std::size_t i : behind) inputs.push_back(call.in(i));
  const std::vector<ValueId> outputs = call.add(backward, std::move(inputs), call.node().attributes);
  for (const std::size_t i : {0u, 1u, 2u})
    if (call.wants(i)) call.give(i, outputs[i]);
}

}  // namespace quern::graph
