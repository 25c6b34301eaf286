// Norm of rows to mean 0 and variance 1, and its gradients.
#include "quern/graph/ops/norm.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId layer_norm(Graph& graph, ValueId x, ValueId weight, ValueId bias, double epsilon, NodeOptions options) {
  return graph.add_node(QUERN_OP_LAYER_NORM, {x, weight, bias}, Attributes().set(QUERN_KEY_EPSILON, epsilon), std::move(options))[0];
}

LayerNormGradients layer_norm_backward(Graph& graph, ValueId x, ValueId weight, ValueId dy, double epsilon, bool accumulate,
                                       NodeOptions options) {
  const auto outputs =
      graph.add_node(QUERN_OP_LAYER_NORM_BACKWARD, {x, weight, dy},
                     Attributes().set(QUERN_KEY_EPSILON, epsilon).set(QUERN_KEY_ACCUMULATE, accumulate), std::move(options));
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace ops

namespace rules {

void layer_norm(OpCall& call) {
  norm_rows_rule(call, {1, 2});
  call.out(0, call.in(0).dtype, call.shape(0));
}

void layer_norm_backward(OpCall& call) {
  norm_rows_rule(call, {1});
  call.dtype_as(2, 0);
  call.same_shape(2, 0);
  if (call.has(1)) call.accumulates({1, 2});
  else call.accumulates({2});
  call.out(0, call.in(0).dtype, call.shape(0));
  if (call.has(1)) call.out(1, QUERN_F32, {call.last(0)});
  call.out(2, QUERN_F32, {call.last(0)});
}

}  // namespace rules

namespace gradients {

void layer_norm(GradientCall& call) {
  // One flag says it for both vectors, so both are added to states or neither.
  const ValueId weight = call.wants(1) ? call.into(1) : no_value, bias = call.wants(2) ? call.into(2) : no_value;
  const bool accumulate = call.wants(1) == (weight != no_value) && call.wants(2) == (bias != no_value) && (call.wants(1) || call.wants(2));
  NodeOptions how = call.how();
  Attributes attributes = call.node().attributes;
  if (accumulate) attributes.set(QUERN_KEY_ACCUMULATE, 1), how.outputs = {no_value, weight, bias};
  for (const std::size_t i : {1u, 2u})
    if (!call.wants(i)) how.skip_outputs |= std::uint64_t{1} << i;
  const auto outputs = call.add(QUERN_OP_LAYER_NORM_BACKWARD, {call.in(0), call.in(1), call.dy()}, attributes, how);
  for (const std::size_t i : {0u, 1u, 2u})
    if (call.wants(i)) call.give(i, outputs[i]);
}

}  // namespace gradients
}  // namespace quern::graph
