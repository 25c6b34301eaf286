// Rows of keys or values into a paged cache.
#include "quern/graph/ops/attention.hpp"

#include "../op_call.hpp"
#include "paged_rules.hpp"

namespace quern::graph {
namespace ops {

ValueId kv_write(Graph& graph, ValueId x, ValueId block_table, ValueId row_slot, ValueId position, ValueId cache, NodeOptions options) {
  options.outputs = {cache};
  return graph.add_node(QUERN_OP_KV_WRITE, {x, block_table, row_slot, position}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void kv_write(OpCall& call) {
  call.dtype(0, floats);
  call.rank_is(0, 3);
  paged_rows_rule(call, 0, 1, 2, 3);
  const Value& cache = call.state(0);
  const quern_dtype dtype = call.out_dtype(QUERN_DTYPE_NONE, cache_types);
  if (cache.shape.size() != 4 || cache.shape[1] != call.dim(0, 1) || cache.shape[3] != call.dim(0, 2))
    call.fail("cache is ", call.text(cache.shape), " but ", call.text(0),
              "; cache must be [pages, kv_heads, page, size] with the heads of x");
  call.out(0, dtype, cache.shape);
}

}  // namespace rules
}  // namespace quern::graph
