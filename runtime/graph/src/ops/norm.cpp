// The root of the sum of squares.
#include "quern/graph/ops/reduction.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "quern/graph/ops/elementwise.hpp"

namespace quern::graph {
namespace ops {

ValueId norm(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_NORM, {x}, {}, std::move(options))[0]; }

}  // namespace ops

namespace rules {

void norm(OpCall& call) {
  call.dtype(0, floats);
  call.out(0, call.out_dtype(call.in(0).dtype, {QUERN_F32, call.in(0).dtype}), {1});
}

}  // namespace rules

namespace gradients {

/// dx = dy x / y.
void norm(GradientCall& call) {
  const ValueId factor = ops::div(call.graph(), call.dy(), call.out(0), call.how());
  call.give(0, ops::mul(call.graph(), call.in(0), call.as(factor, call.dtype(0)), call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
