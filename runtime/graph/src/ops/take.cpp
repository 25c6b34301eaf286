// Elements of each row by index.
#include "quern/graph/ops/rows.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId take(Graph& graph, ValueId x, ValueId index, NodeOptions options) {
  return graph.add_node(QUERN_OP_TAKE, {x, index}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void take(OpCall& call) {
  call.dtype(0, floats);
  call.rank_is(0, 2);
  call.dtype(1, index_types);
  call.rank_is(1, 1);
  call.out(0, call.out_dtype(call.in(0).dtype, floats), {call.dim(0, 0), call.dim(1, 0)});
}

}  // namespace rules
}  // namespace quern::graph
