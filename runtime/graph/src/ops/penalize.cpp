// Repetition, frequency and presence penalties from the history.
#include "quern/graph/ops/sampling.hpp"

#include "../op_call.hpp"
#include "sampling_rules.hpp"

namespace quern::graph {
namespace ops {

ValueId penalize(Graph& graph, ValueId x, ValueId history, ValueId history_len, ValueId params, NodeOptions options) {
  return graph.add_node(QUERN_OP_PENALIZE, {x, history, history_len, params}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void penalize(OpCall& call) {
  logits_rule(call);
  call.dtype(1, i32_only);
  call.rank_is(1, 2);
  call.same_dim(1, 0, 0, 0);
  call.dtype(2, i32_only);
  call.shape_is(2, {call.dim(0, 0)});
  params_rule(call, 3);
  call.out(0, QUERN_F32, call.shape(0));
}

}  // namespace rules
}  // namespace quern::graph
