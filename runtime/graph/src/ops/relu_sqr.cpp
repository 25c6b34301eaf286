// y = max(x, 0)^2, and its gradient.
#include "quern/graph/ops/activation.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId relu_sqr(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_RELU_SQR, {x}, {}, std::move(options))[0]; }

ValueId relu_sqr_backward(Graph& graph, ValueId x, ValueId dy, NodeOptions options) {
  return graph.add_node(QUERN_OP_RELU_SQR_BACKWARD, {x, dy}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void relu_sqr(OpCall& call) { unary_rule(call); }

void relu_sqr_backward(OpCall& call) { unary_backward_rule(call); }

}  // namespace rules

namespace gradients {

void relu_sqr(GradientCall& call) { unary(call, QUERN_OP_RELU_SQR_BACKWARD); }

}  // namespace gradients
}  // namespace quern::graph
