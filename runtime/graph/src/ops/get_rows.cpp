// Rows of a table by index, and the gradient for the table.
#include "quern/graph/ops/rows.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId get_rows(Graph& graph, ValueId table, ValueId index, NodeOptions options) {
  return graph.add_node(QUERN_OP_GET_ROWS, {table, index}, {}, std::move(options))[0];
}

ValueId get_rows_backward(Graph& graph, ValueId dy, ValueId index, Dim rows, NodeOptions options) {
  if (options.outputs.empty() && dy < graph.values().size() && graph.value(dy).shape.size() == 2)
    options.output_shape = {rows, graph.value(dy).shape[1]};
  return graph.add_node(QUERN_OP_GET_ROWS_BACKWARD, {dy, index}, {}, std::move(options))[0];
}

ValueId get_rows_backward_accumulate(Graph& graph, ValueId dy, ValueId index, ValueId dtable, NodeOptions options) {
  options.outputs = {dtable};
  return graph.add_node(QUERN_OP_GET_ROWS_BACKWARD, {dy, index}, Attributes().set(QUERN_KEY_ACCUMULATE, 1), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void get_rows(OpCall& call) {
  call.dtype(0, all_types);
  call.rank_is(0, 2);
  call.dtype(1, index_types);
  call.rank_is(1, 1);
  const quern_dtype table = call.in(0).dtype;
  const bool is_float = table == QUERN_F16 || table == QUERN_BF16;
  call.out(0, call.out_dtype(is_float ? table : QUERN_F32, floats), {call.dim(1, 0), call.dim(0, 1)});
}

void get_rows_backward(OpCall& call) {
  call.dtype(0, floats);
  call.rank_is(0, 2);
  call.dtype(1, index_types);
  call.rank_is(1, 1);
  call.same_dim(1, 0, 0, 0);
  call.accumulates({0});
  const Shape& table = call.out_shape(0);
  if (table.size() != 2 || table[1] != call.dim(0, 1))
    call.fail("dtable is ", call.text(table), " but ", call.text(0), "; dtable needs 2 dimensions and rows as long as dy's");
  call.out(0, call.out_dtype(call.in(0).dtype, floats), table);
}

}  // namespace rules

namespace gradients {

void get_rows(GradientCall& call) {
  const ValueId into = call.into(0);
  if (into != no_value) call.give(0, ops::get_rows_backward_accumulate(call.graph(), call.dy(), call.in(1), into, call.how()));
  else call.give(0, ops::get_rows_backward(call.graph(), call.dy(), call.in(1), call.shape(0)[0], call.how(call.sum_dtype(0))));
}

}  // namespace gradients
}  // namespace quern::graph
