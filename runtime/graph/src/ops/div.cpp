// y = a / b, b broadcasting to a.
#include "quern/graph/ops/elementwise.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId div(Graph& graph, ValueId a, ValueId b, NodeOptions options) {
  return graph.add_node(QUERN_OP_DIV, {a, b}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void div(OpCall& call) { broadcast_rule(call); }

}  // namespace rules

namespace gradients {

/// da = dy / b; db = -dy y / b.
void div(GradientCall& call) {
  const ValueId da = ops::div(call.graph(), call.dy(), call.in(1), call.how());
  if (call.wants(0)) call.give(0, da);
  if (!call.wants(1)) return;
  const ValueId db = call.summed(ops::mul(call.graph(), da, call.out(0), call.how()), 1);
  call.give(1, ops::neg(call.graph(), db, call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
