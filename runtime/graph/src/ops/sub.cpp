// y = a - b, b broadcasting to a.
#include "quern/graph/ops/elementwise.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId sub(Graph& graph, ValueId a, ValueId b, NodeOptions options) {
  return graph.add_node(QUERN_OP_SUB, {a, b}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void sub(OpCall& call) { broadcast_rule(call); }

}  // namespace rules

namespace gradients {

void sub(GradientCall& call) {
  if (call.wants(0)) call.give(0, call.dy());
  if (call.wants(1)) call.give(1, ops::neg(call.graph(), call.summed(call.dy(), 1), call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
