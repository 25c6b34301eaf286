// Rows scaled to length 1, and the gradient.
#include "quern/graph/ops/norm.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId l2_norm(Graph& graph, ValueId x, double epsilon, NodeOptions options) {
  return graph.add_node(QUERN_OP_L2_NORM, {x}, Attributes().set(QUERN_KEY_EPSILON, epsilon), std::move(options))[0];
}

ValueId l2_norm_backward(Graph& graph, ValueId x, ValueId dy, double epsilon, NodeOptions options) {
  return graph.add_node(QUERN_OP_L2_NORM_BACKWARD, {x, dy}, Attributes().set(QUERN_KEY_EPSILON, epsilon), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void l2_norm(OpCall& call) {
  norm_rows_rule(call, {});
  call.out(0, call.in(0).dtype, call.shape(0));
}

void l2_norm_backward(OpCall& call) {
  norm_rows_rule(call, {});
  unary_backward_rule(call);
}

}  // namespace rules

namespace gradients {

void l2_norm(GradientCall& call) { unary(call, QUERN_OP_L2_NORM_BACKWARD); }

}  // namespace gradients
}  // namespace quern::graph
