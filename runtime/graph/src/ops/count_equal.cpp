// How many elements of two values are equal.
#include "quern/graph/ops/reduction.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId count_equal(Graph& graph, ValueId a, ValueId b, NodeOptions options) {
  return graph.add_node(QUERN_OP_COUNT_EQUAL, {a, b}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void count_equal(OpCall& call) {
  call.dtype(0, i32_only);
  call.dtype(1, i32_only);
  call.same_shape(1, 0);
  call.out(0, QUERN_I64, {1});
}

}  // namespace rules
}  // namespace quern::graph
