// The largest along the last dimension.
#include "quern/graph/ops/reduction.hpp"

#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId max(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_MAX, {x}, {}, std::move(options))[0]; }

}  // namespace ops

namespace rules {

void max(OpCall& call) {
  call.dtype(0, floats);
  Shape shape = without_last(call, 0);
  if (call.last(0).size < 1) call.fail(call.text(0), "; it needs at least one element in a row");
  call.out(0, call.in(0).dtype, std::move(shape));
}

}  // namespace rules
}  // namespace quern::graph
