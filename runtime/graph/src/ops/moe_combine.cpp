// The weighted sum of what the experts of a row gave.
#include "quern/graph/ops/moe.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId moe_combine(Graph& graph, ValueId x, ValueId weight, NodeOptions options) {
  return graph.add_node(QUERN_OP_MOE_COMBINE, {x, weight}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void moe_combine(OpCall& call) {
  call.dtype(0, floats);
  call.rank_is(0, 3);
  call.dtype(1, f32_only);
  call.shape_is(1, {call.dim(0, 0), call.dim(0, 1)});
  call.out(0, call.in(0).dtype, {call.dim(0, 0), call.dim(0, 2)});
}

}  // namespace rules
}  // namespace quern::graph
