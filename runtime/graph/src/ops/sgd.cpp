// One step of gradient descent on a parameter, in place.
#include "quern/graph/ops/optimiser.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

void sgd(Graph& graph, const SgdInputs& in, const SgdState& state, const SgdAttributes& how, NodeOptions options) {
  options.outputs = {state.w, state.momentum};
  if (state.momentum == no_value) options.skip_outputs |= 1u << 1;
  graph.add_node(QUERN_OP_SGD, {in.gradient, in.lr, in.scale},
                 Attributes().set(QUERN_KEY_MOMENTUM, how.momentum).set(QUERN_KEY_WEIGHT_DECAY, how.weight_decay), std::move(options));
}

}  // namespace ops

namespace rules {

void sgd(OpCall& call) {
  call.dtype(0, {QUERN_F32, QUERN_BF16});
  for (const std::size_t i : {1u, 2u}) {
    call.dtype(i, f32_only);
    call.shape_is(i, {1});
  }
  call.not_negative(QUERN_KEY_MOMENTUM);
  if (!(call.number(QUERN_KEY_MOMENTUM) < 1)) call.fail("momentum is ", call.number(QUERN_KEY_MOMENTUM), "; it must be below 1");
  call.not_negative(QUERN_KEY_WEIGHT_DECAY);
  if (call.number(QUERN_KEY_MOMENTUM) > 0 && !call.wanted(1)) call.fail("has a momentum, so it needs the state momentum");
  call.state(0);
  call.out(0, call.out_dtype(QUERN_DTYPE_NONE, {QUERN_F32, QUERN_BF16}), call.shape(0));
  if (!call.wanted(1)) return;
  const quern_dtype momentum = call.state(1).dtype;
  if (momentum != QUERN_F32 && momentum != QUERN_BF16) call.fail("momentum is ", dtype_name(momentum), "; it may be f32 or bf16");
  call.out(1, momentum, call.shape(0));
}

}  // namespace rules
}  // namespace quern::graph
