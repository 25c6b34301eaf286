// y = x * sigmoid(x), and its gradient.
#include "quern/graph/ops/activation.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId silu(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_SILU, {x}, {}, std::move(options))[0]; }

ValueId silu_backward(Graph& graph, ValueId x, ValueId dy, NodeOptions options) {
  return graph.add_node(QUERN_OP_SILU_BACKWARD, {x, dy}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void silu(OpCall& call) { unary_rule(call); }

void silu_backward(OpCall& call) { unary_backward_rule(call); }

}  // namespace rules

namespace gradients {

void silu(GradientCall& call) { unary(call, QUERN_OP_SILU_BACKWARD); }

}  // namespace gradients
}  // namespace quern::graph
