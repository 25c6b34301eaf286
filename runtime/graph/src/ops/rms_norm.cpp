// Root-mean-square norm of rows, and its gradients.
#include "quern/graph/ops/norm.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

namespace {

Attributes attributes_of(const RmsNormAttributes& how) {
  return Attributes().set(QUERN_KEY_EPSILON, how.epsilon).set(QUERN_KEY_WEIGHT_OFFSET, how.weight_offset);
}

}  // namespace

ValueId rms_norm(Graph& graph, ValueId x, ValueId weight, const RmsNormAttributes& how, NodeOptions options) {
  return graph.add_node(QUERN_OP_RMS_NORM, {x, weight}, attributes_of(how), std::move(options))[0];
}

RmsNormGradients rms_norm_backward(Graph& graph, ValueId x, ValueId weight, ValueId dy, const RmsNormAttributes& how, bool accumulate,
                                   NodeOptions options) {
  const auto outputs = graph.add_node(QUERN_OP_RMS_NORM_BACKWARD, {x, weight, dy}, attributes_of(how).set(QUERN_KEY_ACCUMULATE, accumulate),
                                      std::move(options));
  return {outputs[0], outputs[1]};
}

}  // namespace ops

namespace rules {

void rms_norm(OpCall& call) {
  norm_rows_rule(call, {1});
  call.finite(QUERN_KEY_WEIGHT_OFFSET);
  call.out(0, call.in(0).dtype, call.shape(0));
}

void rms_norm_backward(OpCall& call) {
  norm_rows_rule(call, {1});
  call.finite(QUERN_KEY_WEIGHT_OFFSET);
  call.dtype_as(2, 0);
  call.same_shape(2, 0);
  call.flag(QUERN_KEY_ACCUMULATE);
  call.out(0, call.in(0).dtype, call.shape(0));
  if (!call.has(1)) return;
  call.accumulates({1});
  call.out(1, QUERN_F32, call.shape(1));
}

}  // namespace rules

namespace gradients {

void rms_norm(GradientCall& call) {
  NodeOptions how = call.how();
  Attributes attributes = call.node().attributes;
  const ValueId into = call.wants(1) ? call.into(1) : no_value;
  if (into != no_value) attributes.set(QUERN_KEY_ACCUMULATE, 1);
  if (call.wants(1)) how.outputs = {no_value, into};
  else how.skip_outputs = 1u << 1;
  const auto outputs = call.add(QUERN_OP_RMS_NORM_BACKWARD, {call.in(0), call.in(1), call.dy()}, attributes, how);
  for (const std::size_t i : {0u, 1u})
    if (call.wants(i)) call.give(i, outputs[i]);
}

}  // namespace gradients
}  // namespace quern::graph
