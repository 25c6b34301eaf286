// Running sum along the last dimension.
#include "quern/graph/ops/elementwise.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "quern/graph/ops/reduction.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId cumsum(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_CUMSUM, {x}, {}, std::move(options))[0]; }

}  // namespace ops

namespace rules {

void cumsum(OpCall& call) {
  call.rank_at_least(0, 1);
  unary_rule(call);
}

}  // namespace rules

namespace gradients {

/// dx[i] = the sum of dy from i on: all of it, less what comes before i.
void cumsum(GradientCall& call) {
  const ValueId dy = call.as(call.dy(), QUERN_F32);
  const ValueId before = ops::sub(call.graph(), ops::cumsum(call.graph(), dy, call.how()), dy, call.how());
  const ValueId all = ops::sum_rows(call.graph(), dy, call.how());
  call.give(0, ops::add(call.graph(), ops::neg(call.graph(), before, call.how()), all, 1, call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
