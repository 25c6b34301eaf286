// Filters, temperature and one draw a row.
#include "quern/graph/ops/sampling.hpp"

#include "../op_call.hpp"
#include "sampling_rules.hpp"

namespace quern::graph {
namespace ops {

Sampled sample(Graph& graph, ValueId x, ValueId params, ValueId seed, ValueId step, NodeOptions options) {
  const auto outputs = graph.add_node(QUERN_OP_SAMPLE, {x, params, seed, step}, {}, std::move(options));
  return {outputs[0], outputs[1]};
}

}  // namespace ops

namespace rules {

void sample(OpCall& call) {
  logits_rule(call);
  params_rule(call, 1);
  call.dtype(2, {QUERN_U32});
  call.shape_is(2, {call.dim(0, 0), 2});
  call.dtype(3, i32_only);
  call.shape_is(3, {call.dim(0, 0)});
  call.out(0, QUERN_I32, {call.dim(0, 0)});
  call.out(1, QUERN_F32, {call.dim(0, 0)});
}

}  // namespace rules
}  // namespace quern::graph
