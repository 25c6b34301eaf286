// Sampled tokens into a ring that the host reads.
#include "quern/graph/ops/sampling.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId token_publish(Graph& graph, ValueId token, ValueId sequence_number, ValueId ring, NodeOptions options) {
  options.outputs = {ring};
  return graph.add_node(QUERN_OP_TOKEN_PUBLISH, {token, sequence_number}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void token_publish(OpCall& call) {
  call.dtype(0, i32_only);
  call.rank_is(0, 1);
  call.dtype(1, i32_only);
  call.shape_is(1, {1});
  if (call.root_kind(1) != QUERN_VALUE_STATE) call.fail(call.text(1), "; it is counted up in place, so it must be of kind state");
  const Value& ring = call.state(0);
  if (ring.dtype != QUERN_I32 || ring.shape.size() != 2 || ring.shape[1] != call.dim(0, 0) || ring.shape[0].size < 1)
    call.fail("ring is ", dtype_name(ring.dtype), " ", call.text(ring.shape), " but ", call.text(0), "; ring must be i32 [entries, ",
              call.dim(0, 0).size, "]");
  call.out(0, QUERN_I32, ring.shape);
}

}  // namespace rules
}  // namespace quern::graph
