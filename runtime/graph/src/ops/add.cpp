// y = a + alpha * b, b broadcasting to a.
#include "quern/graph/ops/elementwise.hpp"

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
}  // namespace quern::graph
