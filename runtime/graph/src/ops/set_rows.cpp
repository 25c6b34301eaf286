// table[index[i]] = x[i], in place.
#include "quern/graph/ops/rows.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId set_rows(Graph& graph, ValueId x, ValueId index, ValueId table, NodeOptions options) {
  options.outputs = {table};
  return graph.add_node(QUERN_OP_SET_ROWS, {x, index}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void set_rows(OpCall& call) { write_rows_rule(call, {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q4_0}); }

}  // namespace rules

namespace gradients {

void set_rows(GradientCall& call) {
  if (call.wants(0)) call.give(0, ops::get_rows(call.graph(), call.dy(), call.in(1), call.how(call.dtype(0))));
}

}  // namespace gradients
}  // namespace quern::graph
