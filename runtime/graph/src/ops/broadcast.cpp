// The root's x on every rank.
#include "quern/graph/ops/collective.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId broadcast(Graph& graph, ValueId x, std::int64_t root, NodeOptions options) {
  return graph.add_node(QUERN_OP_BROADCAST, {x}, Attributes().set(QUERN_KEY_ROOT, root), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void broadcast(OpCall& call) {
  call.dtype(0, all_types);
  call.not_negative(QUERN_KEY_ROOT);
  call.out(0, call.in(0).dtype, call.shape(0));
}

}  // namespace rules
}  // namespace quern::graph
