// The factor that brings the norm below a limit and undoes the loss scale.
#include "quern/graph/ops/optimiser.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId clip_scale(Graph& graph, ValueId norm, ValueId loss_scale, double max_norm, NodeOptions options) {
  return graph.add_node(QUERN_OP_CLIP_SCALE, {norm, loss_scale}, Attributes().set(QUERN_KEY_MAX_NORM, max_norm), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void clip_scale(OpCall& call) {
  for (const std::size_t i : {0u, 1u}) {
    call.dtype(i, f32_only);
    call.shape_is(i, {1});
  }
  call.positive(QUERN_KEY_MAX_NORM);
  call.out(0, QUERN_F32, {1});
}

}  // namespace rules
}  // namespace quern::graph
