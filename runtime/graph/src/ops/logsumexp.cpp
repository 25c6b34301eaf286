// Log of the sum of exp along the last dimension.
#include "quern/graph/ops/softmax.hpp"

#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId logsumexp(Graph& graph, ValueId x, NodeOptions options) {
  return graph.add_node(QUERN_OP_LOGSUMEXP, {x}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void logsumexp(OpCall& call) {
  call.dtype(0, floats);
  call.out(0, call.in(0).dtype, without_last(call, 0));
}

}  // namespace rules
}  // namespace quern::graph
