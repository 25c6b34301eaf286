// sum = a + b and y = rms_norm(sum) in one.
#include "quern/graph/ops/norm.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "quern/graph/ops/elementwise.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

AddRmsNorm add_rms_norm(Graph& graph, ValueId a, ValueId b, ValueId weight, const RmsNormAttributes& how, NodeOptions options) {
  const auto outputs =
      graph.add_node(QUERN_OP_ADD_RMS_NORM, {a, b, weight},
                     Attributes().set(QUERN_KEY_EPSILON, how.epsilon).set(QUERN_KEY_WEIGHT_OFFSET, how.weight_offset), std::move(options));
  return {outputs[0], outputs[1]};
}

}  // namespace ops

namespace rules {

void add_rms_norm(OpCall& call) {
  norm_rows_rule(call, {2});
  call.finite(QUERN_KEY_WEIGHT_OFFSET);
  call.dtype_as(1, 0);
  call.same_shape(1, 0);
  call.out(0, call.in(0).dtype, call.shape(0));
  call.out(1, call.in(0).dtype, call.shape(0));
}

}  // namespace rules

namespace gradients {

/// Through the norm where y is read, and past it where the sum is.
void add_rms_norm(GradientCall& call) {
  constexpr std::size_t a = 0, b = 1, weight = 2, sum = 0, y = 1;
  ValueId dsum = call.dy(sum);
  if (call.dy(y) == no_value) {
    if (call.wants(weight)) call.has_none(weight);
  } else {
    NodeOptions how = call.how();
    Attributes attributes = call.node().attributes;
    const ValueId into = call.wants(weight) ? call.into(weight) : no_value;
    if (into != no_value) attributes.set(QUERN_KEY_ACCUMULATE, 1);
    if (call.wants(weight)) how.outputs = {no_value, into};
    else how.skip_outputs = 1u << 1;
    const auto outputs = call.add(QUERN_OP_RMS_NORM_BACKWARD, {call.out(sum), call.in(weight), call.dy(y)}, attributes, how);
    dsum = dsum == no_value ? outputs[0] : ops::add(call.graph(), dsum, outputs[0], 1, call.how());
    if (call.wants(weight)) call.give(weight, outputs[1]);
  }
  for (const std::size_t i : {a, b})
    if (call.wants(i)) call.give(i, dsum);
}

}  // namespace gradients
}  // namespace quern::graph
