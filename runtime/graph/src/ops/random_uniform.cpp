// Numbers in (0, 1) from a counter.
#include "quern/graph/ops/sampling.hpp"

#include "../op_call.hpp"
#include "sampling_rules.hpp"

namespace quern::graph {
namespace ops {

ValueId random_uniform(Graph& graph, Shape shape, ValueId seed, ValueId step, std::int64_t salt, NodeOptions options) {
  options.output_shape = std::move(shape);
  return graph.add_node(QUERN_OP_RANDOM_UNIFORM, {seed, step}, Attributes().set(QUERN_KEY_SALT, salt), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void random_uniform(OpCall& call) {
  random_rule(call, 0, 1);
  salt_rule(call);
  call.out(0, QUERN_F32, call.out_shape(0));
}

}  // namespace rules
}  // namespace quern::graph
