// y = alpha * x + beta.
#include "quern/graph/ops/elementwise.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId scale(Graph& graph, ValueId x, double alpha, double beta, NodeOptions options) {
  return graph.add_node(QUERN_OP_SCALE, {x}, Attributes().set(QUERN_KEY_ALPHA, alpha).set(QUERN_KEY_BETA, beta), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void scale(OpCall& call) {
  call.finite(QUERN_KEY_ALPHA);
  call.finite(QUERN_KEY_BETA);
  unary_rule(call);
}

}  // namespace rules

namespace gradients {

void scale(GradientCall& call) {
  const double alpha = call.number(QUERN_KEY_ALPHA);
  call.give(0, alpha == 1 ? call.dy() : ops::scale(call.graph(), call.dy(), alpha, 0, call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
