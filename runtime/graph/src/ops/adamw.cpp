// One AdamW step on a parameter, in place.
#include "quern/graph/ops/optimiser.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

void adamw(Graph& graph, const AdamwInputs& in, const AdamwState& state, const AdamwAttributes& how, NodeOptions options) {
  options.outputs = {state.w, state.m, state.v, state.master};
  if (state.master == no_value) options.skip_outputs |= 1u << 3;
  graph.add_node(QUERN_OP_ADAMW, {in.gradient, in.step, in.lr, in.scale},
                 Attributes()
                     .set(QUERN_KEY_BETA1, how.beta1)
                     .set(QUERN_KEY_BETA2, how.beta2)
                     .set(QUERN_KEY_EPSILON, how.epsilon)
                     .set(QUERN_KEY_WEIGHT_DECAY, how.weight_decay),
                 std::move(options));
}

}  // namespace ops

namespace rules {

void adamw(OpCall& call) {
  call.dtype(0, f32_only);
  call.dtype(1, i32_only);
  call.shape_is(1, {1});
  for (const std::size_t i : {2u, 3u}) {
    call.dtype(i, f32_only);
    call.shape_is(i, {1});
  }
  for (const std::uint32_t key : {QUERN_KEY_BETA1, QUERN_KEY_BETA2}) {
    call.not_negative(key);
    if (!(call.number(key) < 1)) call.fail(attribute_name(key), " is ", call.number(key), "; it must be below 1");
  }
  call.positive(QUERN_KEY_EPSILON);
  call.not_negative(QUERN_KEY_WEIGHT_DECAY);
  call.state(0);
  call.out(0, call.out_dtype(QUERN_DTYPE_NONE, {QUERN_F32, QUERN_BF16}), call.shape(0));
  for (const std::size_t i : {1u, 2u, 3u}) {
    if (!call.wanted(i)) continue;
    call.state(i);
    call.out(i, QUERN_F32, call.shape(0));
  }
}

}  // namespace rules
}  // namespace quern::graph
