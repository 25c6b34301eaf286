// Sum, max or mean over the ranks.
#include "quern/graph/ops/collective.hpp"

#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId all_reduce(Graph& graph, ValueId x, std::int64_t kind, NodeOptions options) {
  return graph.add_node(QUERN_OP_ALL_REDUCE, {x}, Attributes().set(QUERN_KEY_KIND, kind), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void all_reduce(OpCall& call) {
  call.choice(QUERN_KEY_KIND, 3);
  unary_rule(call);
}

}  // namespace rules
}  // namespace quern::graph
