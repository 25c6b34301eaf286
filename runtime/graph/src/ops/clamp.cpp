// y = min(max(x, min), max).
#include "quern/graph/ops/elementwise.hpp"

#include "../op_call.hpp"
#include "shapes.hpp"

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
}  // namespace quern::graph
