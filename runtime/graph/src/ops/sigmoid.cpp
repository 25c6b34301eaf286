// y = 1 / (1 + exp(-x)), and its gradient.
#include "quern/graph/ops/activation.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId sigmoid(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_SIGMOID, {x}, {}, std::move(options))[0]; }

ValueId sigmoid_backward(Graph& graph, ValueId x, ValueId dy, NodeOptions options) {
  return graph.add_node(QUERN_OP_SIGMOID_BACKWARD, {x, dy}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void sigmoid(OpCall& call) { unary_rule(call); }

void sigmoid_backward(OpCall& call) { unary_backward_rule(call); }

}  // namespace rules

namespace gradients {

void sigmoid(GradientCall& call) { unary(call, QUERN_OP_SIGMOID_BACKWARD); }

}  // namespace gradients
}  // namespace quern::graph
