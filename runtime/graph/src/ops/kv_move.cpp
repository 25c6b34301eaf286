// Single positions within sequences of a cache.
#include "quern/graph/ops/attention.hpp"

#include "../op_call.hpp"
#include "paged_rules.hpp"

namespace quern::graph {
namespace ops {

ValueId kv_move(Graph& graph, ValueId cache, ValueId block_table, ValueId row_slot, ValueId from, ValueId to, NodeOptions options) {
  options.outputs = {cache};
  return graph.add_node(QUERN_OP_KV_MOVE, {cache, block_table, row_slot, from, to}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void kv_move(OpCall& call) {
  cache_rule(call, 0);
  call.rank_is(2, 1);
  paged_rows_rule(call, 2, 1, 3, 4);
  call.dtype(2, i32_only);
  call.state(0);
  if (call.given_id(0) != call.id(0)) call.fail("moves within one cache: its input and its output must be the same value");
  call.out(0, call.in(0).dtype, call.shape(0));
}

}  // namespace rules
}  // namespace quern::graph
