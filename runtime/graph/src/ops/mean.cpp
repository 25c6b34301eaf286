// The mean of all elements.
#include "quern/graph/ops/reduction.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId mean(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_MEAN, {x}, {}, std::move(options))[0]; }

}  // namespace ops

namespace rules {

void mean(OpCall& call) {
  call.dtype(0, floats);
  call.out(0, call.out_dtype(call.in(0).dtype, {QUERN_F32, call.in(0).dtype}), {1});
}

}  // namespace rules
}  // namespace quern::graph
