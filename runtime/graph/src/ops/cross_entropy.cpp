// Cross entropy of rows of logits, and its gradient.
#include "quern/graph/ops/loss.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

namespace {

Attributes attributes_of(const CrossEntropyAttributes& how) {
  return Attributes().set(QUERN_KEY_IGNORE, how.ignore).set(QUERN_KEY_SMOOTHING, how.smoothing).set(QUERN_KEY_Z_LOSS, how.z_loss);
}

}  // namespace

CrossEntropy cross_entropy(Graph& graph, ValueId logits, ValueId label, const CrossEntropyAttributes& how, NodeOptions options) {
  const auto outputs = graph.add_node(QUERN_OP_CROSS_ENTROPY, {logits, label}, attributes_of(how), std::move(options));
  return {outputs[0], outputs[1]};
}

ValueId cross_entropy_backward(Graph& graph, ValueId logits, ValueId label, ValueId lse, ValueId dloss, const CrossEntropyAttributes& how,
                               NodeOptions options) {
  return graph.add_node(QUERN_OP_CROSS_ENTROPY_BACKWARD, {logits, label, lse, dloss}, attributes_of(how), std::move(options))[0];
}

}  // namespace ops

namespace rules {

namespace {

void logits_and_labels_rule(OpCall& call) {
  call.dtype(0, floats);
  call.rank_is(0, 2);
  call.dtype(1, i32_only);
  call.shape_is(1, {call.dim(0, 0)});
  call.not_negative(QUERN_KEY_SMOOTHING);
  if (call.number(QUERN_KEY_SMOOTHING) > 1) call.fail("smoothing is ", call.number(QUERN_KEY_SMOOTHING), "; it must be 0 to 1");
  call.not_negative(QUERN_KEY_Z_LOSS);
}

}  // namespace

void cross_entropy(OpCall& call) {
  logits_and_labels_rule(call);
  call.out(0, QUERN_F32, {call.dim(0, 0)});
  call.out(1, QUERN_F32, {call.dim(0, 0)});
}

void cross_entropy_backward(OpCall& call) {
  logits_and_labels_rule(call);
  for (const std::size_t i : {2u, 3u}) {
    call.dtype(i, f32_only);
    call.shape_is(i, {call.dim(0, 0)});
  }
  call.out(0, call.in(0).dtype, call.shape(0));
}

}  // namespace rules

namespace gradients {

void cross_entropy(GradientCall& call) {
  constexpr std::size_t loss = 0, lse = 1;
  if (call.dy(lse) != no_value) call.fail("has no gradient for its output lse, which the loss reads; use z_loss, or logsumexp");
  const ValueId logits = call.in(0);
  NodeOptions how = call.how();
  if (call.options().may_use.logits_in_place && call.may_overwrite(0, logits)) how.outputs = {call.graph().reshape(logits, call.shape(0))};
  call.give(0, call.add(QUERN_OP_CROSS_ENTROPY_BACKWARD, {logits, call.in(1), call.out(lse), call.dy(loss)}, call.node().attributes,
                        std::move(how))[0]);
}

}  // namespace gradients
}  // namespace quern::graph
