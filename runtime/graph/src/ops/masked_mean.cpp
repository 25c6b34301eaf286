// The mean where a mask is set, and its gradient.
#include "quern/graph/ops/loss.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

MaskedMean masked_mean(Graph& graph, ValueId x, ValueId mask, NodeOptions options) {
  const auto outputs = graph.add_node(QUERN_OP_MASKED_MEAN, {x, mask}, {}, std::move(options));
  return {outputs[0], outputs[1]};
}

ValueId masked_mean_backward(Graph& graph, ValueId mask, ValueId count, ValueId dy, NodeOptions options) {
  return graph.add_node(QUERN_OP_MASKED_MEAN_BACKWARD, {mask, count, dy}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void masked_mean(OpCall& call) {
  call.dtype(0, f32_only);
  call.rank_is(0, 1);
  call.dtype(1, i32_only);
  call.same_shape(1, 0);
  call.out(0, QUERN_F32, {1});
  call.out(1, QUERN_F32, {1});
}

void masked_mean_backward(OpCall& call) {
  call.dtype(0, i32_only);
  call.rank_is(0, 1);
  for (const std::size_t i : {1u, 2u}) {
    call.dtype(i, f32_only);
    call.shape_is(i, {1});
  }
  call.out(0, QUERN_F32, call.shape(0));
}

}  // namespace rules

namespace gradients {

/// count depends on the mask alone.
void masked_mean(GradientCall& call) {
  constexpr std::size_t y = 0, count = 1;
  if (call.dy(y) == no_value) return call.has_none(0);
  call.give(0, ops::masked_mean_backward(call.graph(), call.in(1), call.out(count), call.dy(y), call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
