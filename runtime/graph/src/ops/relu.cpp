// y = max(x, 0), and its gradient.
#include "quern/graph/ops/activation.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId relu(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_RELU, {x}, {}, std::move(options))[0]; }

ValueId relu_backward(Graph& graph, ValueId x, ValueId dy, NodeOptions options) {
  return graph.add_node(QUERN_OP_RELU_BACKWARD, {x, dy}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void relu(OpCall& call) { unary_rule(call); }

void relu_backward(OpCall& call) { unary_backward_rule(call); }

}  // namespace rules

namespace gradients {

void relu(GradientCall& call) { unary(call, QUERN_OP_RELU_BACKWARD); }

}  // namespace gradients
}  // namespace quern::graph
