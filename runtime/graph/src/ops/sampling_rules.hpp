// What the ops over logits have in common.
#pragma once

#include "../op_call.hpp"

namespace quern::graph {

/// Input 0 is f32 logits [s, n] with n >= 1.
inline void logits_rule(const OpCall& call) {
  call.dtype(0, f32_only);
  call.rank_is(0, 2);
  if (call.dim(0, 1).size < 1) call.fail(call.text(0), "; it needs at least one logit in a row");
}

/// One row of eight sampler settings a row of logits.
inline void params_rule(const OpCall& call, std::size_t params) {
  call.dtype(params, f32_only);
  call.shape_is(params, {call.dim(0, 0), 8});
}

/// seed u32 [2] and step i32 [1], the key and counter of the random numbers.
inline void random_rule(const OpCall& call, std::size_t seed, std::size_t step) {
  call.dtype(seed, {QUERN_U32});
  call.shape_is(seed, {2});
  call.dtype(step, i32_only);
  call.shape_is(step, {1});
}

/// salt is a word of the counter.
inline void salt_rule(const OpCall& call) {
  const std::int64_t salt = call.integer(QUERN_KEY_SALT);
  if (salt < 0 || salt > 0xffffffffll) call.fail("salt is ", salt, "; it must fit 32 bits");
}

/// y = the logits x[s, n] under one probability a row, p[s].
inline void probability_mask_rule(OpCall& call) {
  logits_rule(call);
  call.dtype(1, f32_only);
  call.shape_is(1, {call.dim(0, 0)});
  call.out(0, QUERN_F32, call.shape(0));
}

}  // namespace quern::graph
