// This rank's part of the sum over the ranks.
#include "quern/graph/ops/collective.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "collective_rules.hpp"

namespace quern::graph {
namespace ops {

ValueId reduce_scatter(Graph& graph, ValueId x, Shape shape, std::int64_t axis, NodeOptions options) {
  options.output_shape = std::move(shape);
  return graph.add_node(QUERN_OP_REDUCE_SCATTER, {x}, Attributes().set(QUERN_KEY_AXIS, axis), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void reduce_scatter(OpCall& call) {
  call.dtype(0, floats);
  const Shape& y = call.out_shape(0);
  ranks_rule(call, y, call.shape(0));
  call.out(0, call.in(0).dtype, y);
}

}  // namespace rules

namespace gradients {

void reduce_scatter(GradientCall& call) {
  call.give(0, ops::all_gather(call.graph(), call.dy(), call.shape(0), call.integer(QUERN_KEY_AXIS), call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
