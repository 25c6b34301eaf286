// y = tanh(x), and its gradient.
#include "quern/graph/ops/activation.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId tanh(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_TANH, {x}, {}, std::move(options))[0]; }

ValueId tanh_backward(Graph& graph, ValueId x, ValueId dy, NodeOptions options) {
  return graph.add_node(QUERN_OP_TANH_BACKWARD, {x, dy}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void tanh(OpCall& call) { unary_rule(call); }

void tanh_backward(OpCall& call) { unary_backward_rule(call); }

}  // namespace rules

namespace gradients {

void tanh(GradientCall& call) { unary(call, QUERN_OP_TANH_BACKWARD); }

}  // namespace gradients
}  // namespace quern::graph
