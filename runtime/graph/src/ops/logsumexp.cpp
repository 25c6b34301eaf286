// Log of the sum of exp along the last dimension.
#include "quern/graph/ops/softmax.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "quern/graph/ops/elementwise.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId logsumexp(Graph& graph, ValueId x, NodeOptions options) {
  return graph.add_node(QUERN_OP_LOGSUMEXP, {x}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void logsumexp(OpCall& call) {
  call.dtype(0, floats);
  call.out(0, call.in(0).dtype, without_last(call, 0));
}

}  // namespace rules

namespace gradients {

/// dx = dy * softmax(x); softmax has no bf16.
void logsumexp(GradientCall& call) {
  Shape rows = call.shape(0);
  rows.back() = Dim(1);
  const ValueId p = ops::softmax(call.graph(), call.as(call.in(0), QUERN_F32), no_value, no_value, {}, call.how());
  const ValueId dy = call.reshaped(call.as(call.dy(), QUERN_F32), rows);
  call.give(0, ops::mul(call.graph(), p, dy, call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
