// Whole pages within a cache.
#include "quern/graph/ops/attention.hpp"

#include "../op_call.hpp"
#include "paged_rules.hpp"

namespace quern::graph {
namespace ops {

ValueId kv_copy(Graph& graph, ValueId cache, ValueId page_from, ValueId page_to, NodeOptions options) {
  options.outputs = {cache};
  return graph.add_node(QUERN_OP_KV_COPY, {cache, page_from, page_to}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void kv_copy(OpCall& call) {
  cache_rule(call, 0);
  call.dtype(1, i32_only);
  call.rank_is(1, 1);
  call.dtype(2, i32_only);
  call.rank_is(2, 1);
  call.same_dim(2, 0, 1, 0);
  call.state(0);
  if (call.given_id(0) != call.id(0)) call.fail("copies within one cache: cache_in and cache must be the same value");
  call.out(0, call.in(0).dtype, call.shape(0));
}

}  // namespace rules
}  // namespace quern::graph
