// Sum, max or mean over the ranks.
#include "quern/graph/ops/collective.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId all_reduce(Graph& graph, ValueId x, std::int64_t kind, NodeOptions options) {
  return graph.add_node(QUERN_OP_ALL_REDUCE, {x}, Attributes().set(QUERN_KEY_KIND, kind), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void all_reduce(OpCall& call) {
  call.choice(QUERN_KEY_KIND, 3);
  unary_rule(call);
}

}  // namespace rules

namespace gradients {

/// The loss is the sum of those of the ranks, so the gradients of the ranks add up as the values did.
void all_reduce(GradientCall& call) {
  constexpr std::int64_t max = 1;
  if (call.integer(QUERN_KEY_KIND) == max) call.fail("the largest over the ranks has no gradient");
  call.give(0, call.add(QUERN_OP_ALL_REDUCE, {call.dy()}, call.node().attributes)[0]);
}

}  // namespace gradients
}  // namespace quern::graph
