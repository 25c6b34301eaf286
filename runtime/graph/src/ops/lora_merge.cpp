// y = w + alpha * b a.
#include "quern/graph/ops/lora.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId lora_merge(Graph& graph, ValueId w, ValueId a, ValueId b, double alpha, NodeOptions options) {
  return graph.add_node(QUERN_OP_LORA_MERGE, {w, a, b}, Attributes().set(QUERN_KEY_ALPHA, alpha), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void lora_merge(OpCall& call) {
  for (const std::size_t i : {0u, 1u, 2u}) {
    call.dtype(i, floats);
    call.rank_is(i, 2);
  }
  call.same_dim(1, 1, 0, 1);
  call.same_dim(2, 0, 0, 0);
  call.same_dim(2, 1, 1, 0);
  call.finite(QUERN_KEY_ALPHA);
  call.out(0, call.in(0).dtype, call.shape(0));
}

}  // namespace rules
}  // namespace quern::graph
