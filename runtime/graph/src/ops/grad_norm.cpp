// The norm over all gradients, and whether they are finite.
#include "quern/graph/ops/optimiser.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

GradNorm grad_norm(Graph& graph, std::vector<ValueId> gradients, NodeOptions options) {
  const auto outputs = graph.add_node(QUERN_OP_GRAD_NORM, std::move(gradients), {}, std::move(options));
  return {outputs[0], outputs[1]};
}

}  // namespace ops

namespace rules {

void grad_norm(OpCall& call) {
  for (std::size_t i = 0; i < call.count(); ++i) call.dtype(i, floats);
  call.out(0, QUERN_F32, {1});
  call.out(1, QUERN_I32, {1});
}

}  // namespace rules
}  // namespace quern::graph
