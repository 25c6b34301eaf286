// The logits with at least p times the probability of the best.
#include "quern/graph/ops/sampling.hpp"

#include "../op_call.hpp"
#include "sampling_rules.hpp"

namespace quern::graph {
namespace ops {

ValueId min_p_mask(Graph& graph, ValueId x, ValueId p, NodeOptions options) {
  return graph.add_node(QUERN_OP_MIN_P_MASK, {x, p}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void min_p_mask(OpCall& call) { probability_mask_rule(call); }

}  // namespace rules
}  // namespace quern::graph
