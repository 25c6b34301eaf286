// y = a + alpha * b, b broadcasting to a.
#include "quern/graph/ops/elementwise.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId add(Graph& graph, ValueId a, ValueId b, double alpha, NodeOptions options) {
  return graph.add_node(QUERN_OP_ADD, {a, b}, Attributes().set(QUERN_KEY_ALPHA, alpha), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void add(OpCall& call) {
  call.finite(QUERN_KEY_ALPHA);
  broadcast_rule(call);
}

}  // namespace rules

namespace gradients {

void add(GradientCall& call) {
  if (call.wants(0)) call.give(0, call.dy());
  if (!call.wants(1)) return;
  const double alpha = call.number(QUERN_KEY_ALPHA);
  const ValueId db = call.summed(call.dy(), 1);
  call.give(1, alpha == 1 ? db : ops::scale(call.graph(), db, alpha, 0, call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
