// Biases added to the logits of single tokens.
#include "quern/graph/ops/sampling.hpp"

#include "../op_call.hpp"
#include "sampling_rules.hpp"

namespace quern::graph {
namespace ops {

ValueId logit_bias(Graph& graph, ValueId x, ValueId token, ValueId bias, NodeOptions options) {
  return graph.add_node(QUERN_OP_LOGIT_BIAS, {x, token, bias}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void logit_bias(OpCall& call) {
  logits_rule(call);
  call.dtype(1, i32_only);
  call.rank_is(1, 2);
  call.same_dim(1, 0, 0, 0);
  call.dtype(2, f32_only);
  call.same_shape(2, 1);
  call.out(0, QUERN_F32, call.shape(0));
}

}  // namespace rules
}  // namespace quern::graph
