// The sum of all elements.
#include "quern/graph/ops/reduction.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "reduction_gradient.hpp"

namespace quern::graph {
namespace ops {

ValueId sum(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_SUM, {x}, {}, std::move(options))[0]; }

}  // namespace ops

namespace rules {

void sum(OpCall& call) {
  call.dtype(0, floats);
  call.out(0, call.out_dtype(call.in(0).dtype, {QUERN_F32, call.in(0).dtype}), {1});
}

}  // namespace rules

namespace gradients {

void sum(GradientCall& call) { repeated(call, call.dy()); }

}  // namespace gradients
}  // namespace quern::graph
