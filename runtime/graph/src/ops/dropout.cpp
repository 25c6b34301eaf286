// Elements set to 0 at random; its gradient is the same op.
#include "quern/graph/ops/lora.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"
#include "sampling_rules.hpp"

namespace quern::graph {
namespace ops {

ValueId dropout(Graph& graph, ValueId x, ValueId seed, ValueId step, double p, std::int64_t salt, NodeOptions options) {
  return graph.add_node(QUERN_OP_DROPOUT, {x, seed, step}, Attributes().set(QUERN_KEY_P, p).set(QUERN_KEY_SALT, salt),
                        std::move(options))[0];
}

}  // namespace ops

namespace rules {

void dropout(OpCall& call) {
  random_rule(call, 1, 2);
  const double p = call.number(QUERN_KEY_P);
  if (!(p >= 0 && static_cast<float>(p) < 1)) call.fail("p is ", p, "; it must be 0 or more and below 1");
  salt_rule(call);
  unary_rule(call);
}

}  // namespace rules

namespace gradients {

/// The same elements as forward: they go by seed, step, salt and place.
void dropout(GradientCall& call) {
  call.give(0, call.add(QUERN_OP_DROPOUT, {call.dy(), call.in(1), call.in(2)}, call.node().attributes)[0]);
}

}  // namespace gradients
}  // namespace quern::graph
