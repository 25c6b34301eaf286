// Position of the largest along the last dimension.
#include "quern/graph/ops/sampling.hpp"

#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId argmax(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_ARGMAX, {x}, {}, std::move(options))[0]; }

}  // namespace ops

namespace rules {

void argmax(OpCall& call) {
  call.dtype(0, floats);
  Shape shape = without_last(call, 0);
  if (call.last(0).size < 1) call.fail(call.text(0), "; it needs at least one element in a row");
  call.out(0, QUERN_I32, std::move(shape));
}

}  // namespace rules
}  // namespace quern::graph
