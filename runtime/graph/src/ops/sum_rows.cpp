// The sum along the last dimension, which stays as 1.
#include "quern/graph/ops/reduction.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "reduction_gradient.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId sum_rows(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_SUM_ROWS, {x}, {}, std::move(options))[0]; }

}  // namespace ops

namespace rules {

void sum_rows(OpCall& call) {
  call.dtype(0, floats);
  Shape shape = without_last(call, 0);
  shape.push_back(1);
  call.out(0, call.out_dtype(call.in(0).dtype, {QUERN_F32, call.in(0).dtype}), std::move(shape));
}

}  // namespace rules

namespace gradients {

void sum_rows(GradientCall& call) { repeated(call, call.dy()); }

}  // namespace gradients
}  // namespace quern::graph
