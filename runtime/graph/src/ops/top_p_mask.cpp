// The fewest best logits whose probabilities sum to p.
#include "quern/graph/ops/sampling.hpp"

#include "../op_call.hpp"
#include "sampling_rules.hpp"

namespace quern::graph {
namespace ops {

ValueId top_p_mask(Graph& graph, ValueId x, ValueId p, NodeOptions options) {
  return graph.add_node(QUERN_OP_TOP_P_MASK, {x, p}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void top_p_mask(OpCall& call) { probability_mask_rule(call); }

}  // namespace rules
}  // namespace quern::graph
