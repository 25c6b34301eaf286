// The k largest along the last dimension.
#include "quern/graph/ops/sampling.hpp"

#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

Sorted top_k(Graph& graph, ValueId x, std::int64_t k, NodeOptions options) {
  const auto outputs = graph.add_node(QUERN_OP_TOP_K, {x}, Attributes().set(QUERN_KEY_K, k), std::move(options));
  return {outputs[0], outputs[1]};
}

}  // namespace ops

namespace rules {

void top_k(OpCall& call) {
  call.dtype(0, f32_only);
  Shape shape = without_last(call, 0);
  const std::int64_t n = call.fixed(0, call.rank(0) - 1);
  const std::int64_t k = call.integer(QUERN_KEY_K);
  if (k < 1 || k > n) call.fail("k is ", k, " but ", call.text(0), "; k must be 1 to ", n);
  shape.push_back(Dim(k));
  call.out(0, QUERN_F32, shape);
  call.out(1, QUERN_I32, std::move(shape));
}

}  // namespace rules
}  // namespace quern::graph
