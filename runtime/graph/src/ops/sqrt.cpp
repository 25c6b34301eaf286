// y = root of x, element by element.
#include "quern/graph/ops/elementwise.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId sqrt(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_SQRT, {x}, {}, std::move(options))[0]; }

}  // namespace ops

namespace rules {

void sqrt(OpCall& call) { unary_rule(call); }

}  // namespace rules

namespace gradients {

void sqrt(GradientCall& call) {
  const ValueId quotient = ops::div(call.graph(), call.dy(), call.out(0), call.how());
  call.give(0, ops::scale(call.graph(), quotient, 0.5, 0, call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
