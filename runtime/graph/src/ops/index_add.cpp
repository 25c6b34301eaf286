// table[index[i]] += x[i], in place.
#include "quern/graph/ops/rows.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId index_add(Graph& graph, ValueId x, ValueId index, ValueId table, NodeOptions options) {
  options.outputs = {table};
  return graph.add_node(QUERN_OP_INDEX_ADD, {x, index}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void index_add(OpCall& call) { write_rows_rule(call, floats); }

}  // namespace rules

namespace gradients {

void index_add(GradientCall& call) {
  if (call.wants(0)) call.give(0, ops::get_rows(call.graph(), call.dy(), call.in(1), call.how(call.dtype(0))));
}

}  // namespace gradients
}  // namespace quern::graph
