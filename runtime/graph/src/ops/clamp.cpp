// y = min(max(x, min), max).
#include "quern/graph/ops/elementwise.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "quern/graph/ops/activation.hpp"
#include "shapes.hpp"

#include <cmath>

namespace quern::graph {
namespace ops {

ValueId clamp(Graph& graph, ValueId x, double min, double max, NodeOptions options) {
  return graph.add_node(QUERN_OP_CLAMP, {x}, Attributes().set(QUERN_KEY_MIN, min).set(QUERN_KEY_MAX, max), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void clamp(OpCall& call) {
  const double min = call.number(QUERN_KEY_MIN);
  const double max = call.number(QUERN_KEY_MAX);
  if (min > max) call.fail("min is ", min, ", above max, which is ", max);
  unary_rule(call);
}

}  // namespace rules

namespace gradients {

/// dx = dy where min <= x <= max, else 0.
void clamp(GradientCall& call) {
  Graph& graph = call.graph();
  const ValueId x = call.in(0), one = ops::fill(graph, call.shape(0), call.dtype(0), 1, call.how());
  ValueId inside = one;
  const auto cut = [&](double sign, double limit) {
    if (!std::isfinite(limit)) return;
    const ValueId beyond = ops::scale(graph, x, sign, -sign * limit, call.how());
    inside = ops::sub(graph, inside, ops::relu_backward(graph, beyond, one, call.how()), call.how());
  };
  cut(-1, call.number(QUERN_KEY_MIN));
  cut(1, call.number(QUERN_KEY_MAX));
  call.give(0, ops::mul(graph, call.dy(), inside, call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
