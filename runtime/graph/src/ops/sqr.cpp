// y = x * x, element by element.
#include "quern/graph/ops/elementwise.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId sqr(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_SQR, {x}, {}, std::move(options))[0]; }

}  // namespace ops

namespace rules {

void sqr(OpCall& call) { unary_rule(call); }

}  // namespace rules

namespace gradients {

void sqr(GradientCall& call) {
  const ValueId product = ops::mul(call.graph(), call.dy(), call.in(0), call.how());
  call.give(0, ops::scale(call.graph(), product, 2, 0, call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
