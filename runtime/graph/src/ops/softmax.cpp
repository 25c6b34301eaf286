// Masked softmax along the last dimension, and its gradient.
#include "quern/graph/ops/softmax.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "quern/graph/ops/elementwise.hpp"
#include "quern/graph/ops/activation.hpp"
#include "shapes.hpp"
#include "attention_rules.hpp"

namespace quern::graph {
namespace ops {

ValueId softmax(Graph& graph, ValueId x, ValueId mask, ValueId sinks, const SoftmaxAttributes& how, NodeOptions options) {
  return graph.add_node(QUERN_OP_SOFTMAX, {x, mask, sinks},
                        Attributes()
                            .set(QUERN_KEY_SCALE, how.scale)
                            .set(QUERN_KEY_CAUSAL, how.causal)
                            .set(QUERN_KEY_QUERY_OFFSET, how.query_offset)
                            .set(QUERN_KEY_WINDOW, how.window)
                            .set(QUERN_KEY_MAX_BIAS, how.max_bias)
                            .set(QUERN_KEY_SOFTCAP, how.softcap),
                        std::move(options))[0];
}

ValueId softmax_backward(Graph& graph, ValueId y, ValueId dy, double scale, NodeOptions options) {
  return graph.add_node(QUERN_OP_SOFTMAX_BACKWARD, {y, dy}, Attributes().set(QUERN_KEY_SCALE, scale), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void softmax(OpCall& call) {
  call.dtype(0, {QUERN_F32, QUERN_F16});
  call.rank_at_least(0, 1);
  call.dtype(1, {QUERN_F32, QUERN_F16});
  call.broadcasts(1, call.shape(0));
  call.dtype(2, f32_only);
  call.finite(QUERN_KEY_SCALE);
  attention_attributes_rule(call);
  if (call.integer(QUERN_KEY_CAUSAL) != 0 || call.integer(QUERN_KEY_WINDOW) > 0) call.rank_at_least(0, 2);
  if (call.number(QUERN_KEY_MAX_BIAS) > 0 || call.has(2)) call.rank_at_least(0, 3);  // dimension -3 is the heads
  if (call.has(2)) call.shape_is(2, {call.dim(0, call.rank(0) - 3)});
  call.out(0, call.in(0).dtype, call.shape(0));
}

void softmax_backward(OpCall& call) {
  call.rank_at_least(0, 1);
  call.finite(QUERN_KEY_SCALE);
  unary_backward_rule(call);
}

}  // namespace rules

namespace gradients {

/// What max_bias, masks and sinks add to the logits does not change the gradient by x. A softcap c multiplies it by
/// 1 - tanh^2(scale x / c).
void softmax(GradientCall& call) {
  if (!call.wants(0)) return;
  const double scale = call.number(QUERN_KEY_SCALE), softcap = call.number(QUERN_KEY_SOFTCAP);
  const ValueId dx = ops::softmax_backward(call.graph(), call.out(0), call.dy(), scale, call.how());
  if (softcap == 0) return call.give(0, dx);
  const ValueId capped = ops::scale(call.graph(), call.in(0), scale / softcap, 0, call.how());
  call.give(0, ops::tanh_backward(call.graph(), capped, dx, call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
