// y = a * b, b broadcasting to a.
#include "quern/graph/ops/elementwise.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId mul(Graph& graph, ValueId a, ValueId b, NodeOptions options) {
  return graph.add_node(QUERN_OP_MUL, {a, b}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void mul(OpCall& call) { broadcast_rule(call); }

}  // namespace rules

namespace gradients {

void mul(GradientCall& call) {
  if (call.wants(0)) call.give(0, ops::mul(call.graph(), call.dy(), call.in(1), call.how()));
  if (call.wants(1)) call.give(1, call.summed(ops::mul(call.graph(), call.dy(), call.in(0), call.how()), 1));
}

}  // namespace gradients
}  // namespace quern::graph
