// y = |x|, element by element.
#include "quern/graph/ops/elementwise.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "quern/graph/ops/activation.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId abs(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_ABS, {x}, {}, std::move(options))[0]; }

}  // namespace ops

namespace rules {

void abs(OpCall& call) { unary_rule(call); }

}  // namespace rules

namespace gradients {

/// dx = dy times the sign of x: 1 above 0, -1 below, 0 at 0.
void abs(GradientCall& call) {
  const ValueId x = call.in(0), one = ops::fill(call.graph(), call.shape(0), call.dtype(0), 1, call.how());
  const ValueId above = ops::relu_backward(call.graph(), x, one, call.how());
  const ValueId below = ops::relu_backward(call.graph(), ops::neg(call.graph(), x, call.how()), one, call.how());
  const ValueId sign = ops::sub(call.graph(), above, below, call.how());
  call.give(0, ops::mul(call.graph(), call.dy(), sign, call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
