// Running sum along the last dimension.
#include "quern/graph/ops/elementwise.hpp"

#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId cumsum(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_CUMSUM, {x}, {}, std::move(options))[0]; }

}  // namespace ops

namespace rules {

void cumsum(OpCall& call) {
  call.rank_at_least(0, 1);
  unary_rule(call);
}

}  // namespace rules
}  // namespace quern::graph
