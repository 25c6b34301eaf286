// y = gelu(x) in three spellings, and its gradient.
#include "quern/graph/ops/activation.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId gelu(Graph& graph, ValueId x, std::int64_t kind, NodeOptions options) {
  return graph.add_node(QUERN_OP_GELU, {x}, Attributes().set(QUERN_KEY_KIND, kind), std::move(options))[0];
}

ValueId gelu_backward(Graph& graph, ValueId x, ValueId dy, std::int64_t kind, NodeOptions options) {
  return graph.add_node(QUERN_OP_GELU_BACKWARD, {x, dy}, Attributes().set(QUERN_KEY_KIND, kind), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void gelu(OpCall& call) {
  call.choice(QUERN_KEY_KIND, 3);
  unary_rule(call);
}

void gelu_backward(OpCall& call) {
  call.choice(QUERN_KEY_KIND, 3);
  unary_backward_rule(call);
}

}  // namespace rules

namespace gradients {

void gelu(GradientCall& call) { unary(call, QUERN_OP_GELU_BACKWARD); }

}  // namespace gradients
}  // namespace quern::graph
