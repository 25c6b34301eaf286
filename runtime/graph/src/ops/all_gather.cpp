// The x of all ranks one after another.
#include "quern/graph/ops/collective.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "collective_rules.hpp"

namespace quern::graph {
namespace ops {

ValueId all_gather(Graph& graph, ValueId x, Shape shape, std::int64_t axis, NodeOptions options) {
  options.output_shape = std::move(shape);
  return graph.add_node(QUERN_OP_ALL_GATHER, {x}, Attributes().set(QUERN_KEY_AXIS, axis), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void all_gather(OpCall& call) {
  call.dtype(0, all_types);
  const Shape& y = call.out_shape(0);
  ranks_rule(call, call.shape(0), y);
  call.out(0, call.in(0).dtype, y);
}

}  // namespace rules

namespace gradients {

void all_gather(GradientCall& call) {
  call.give(0, ops::reduce_scatter(call.graph(), call.dy(), call.shape(0), call.integer(QUERN_KEY_AXIS), call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
