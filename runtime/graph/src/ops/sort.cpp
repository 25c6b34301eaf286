// A stable sort along the last dimension.
#include "quern/graph/ops/sampling.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

Sorted sort(Graph& graph, ValueId x, bool descending, NodeOptions options) {
  const auto outputs = graph.add_node(QUERN_OP_SORT, {x}, Attributes().set(QUERN_KEY_DESCENDING, descending), std::move(options));
  return {outputs[0], outputs[1]};
}

}  // namespace ops

namespace rules {

void sort(OpCall& call) {
  call.dtype(0, f32_only);
  call.rank_at_least(0, 1);
  call.flag(QUERN_KEY_DESCENDING);
  call.out(0, QUERN_F32, call.shape(0));
  call.out(1, QUERN_I32, call.shape(0));
}

}  // namespace rules
}  // namespace quern::graph
