// The k best logits.
#include "quern/graph/ops/sampling.hpp"

#include "../op_call.hpp"
#include "sampling_rules.hpp"

namespace quern::graph {
namespace ops {

ValueId top_k_mask(Graph& graph, ValueId x, ValueId k, NodeOptions options) {
  return graph.add_node(QUERN_OP_TOP_K_MASK, {x, k}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void top_k_mask(OpCall& call) {
  logits_rule(call);
  call.dtype(1, i32_only);
  call.shape_is(1, {call.dim(0, 0)});
  call.out(0, QUERN_F32, call.shape(0));
}

}  // namespace rules
}  // namespace quern::graph
