// How much of a draft the target agrees with.
#include "quern/graph/ops/sampling.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

Accepted spec_accept(Graph& graph, ValueId draft, ValueId target, ValueId live, NodeOptions options) {
  const auto outputs = graph.add_node(QUERN_OP_SPEC_ACCEPT, {draft, target, live}, {}, std::move(options));
  return {outputs[0], outputs[1]};
}

}  // namespace ops

namespace rules {

void spec_accept(OpCall& call) {
  for (const std::size_t i : {0u, 1u, 2u}) call.dtype(i, i32_only);
  call.rank_is(0, 2);
  call.shape_is(1, {call.dim(0, 0), Dim(call.fixed(0, 1) + 1)});
  call.shape_is(2, {call.dim(0, 0)});
  call.out(0, QUERN_I32, call.shape(1));
  call.out(1, QUERN_I32, {call.dim(0, 0)});
}

}  // namespace rules
}  // namespace quern::graph
