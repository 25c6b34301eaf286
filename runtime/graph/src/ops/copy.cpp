// y = x, between views too.
#include "quern/graph/ops/copy.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId copy(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_COPY, {x}, {}, std::move(options))[0]; }

}  // namespace ops

namespace rules {

void copy(OpCall& call) {
  call.dtype(0, all_types);
  call.out(0, call.in(0).dtype, call.shape(0));
}

}  // namespace rules

namespace gradients {

void copy(GradientCall& call) { call.give(0, call.dy()); }

}  // namespace gradients
}  // namespace quern::graph
