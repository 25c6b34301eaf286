// Softmax attention over dense keys and values, and its gradients.
#include "quern/graph/ops/attention.hpp"

#include "attention_rules.hpp"

namespace quern::graph {
namespace ops {

namespace {

Attributes attributes_of(const AttentionDenseAttributes& how) {
  return Attributes()
      .set(QUERN_KEY_SCALE, how.scale)
      .set(QUERN_KEY_CAUSAL, how.causal)
      .set(QUERN_KEY_QUERY_OFFSET, how.query_offset)
      .set(QUERN_KEY_WINDOW, how.window)
      .set(QUERN_KEY_SOFTCAP, how.softcap)
      .set(QUERN_KEY_MAX_BIAS, how.max_bias);
}

}  // namespace

AttentionDense attention_dense(Graph& graph, const AttentionDenseInputs& in, const AttentionDenseAttributes& how, NodeOptions options) {
  const auto outputs =
      graph.add_node(QUERN_OP_ATTENTION_DENSE, {in.q, in.k, in.v, in.mask, in.sinks}, attributes_of(how), std::move(options));
  return {outputs[0], outputs[1]};
}

AttentionGradients attention_backward(Graph& graph, const AttentionDenseInputs& in, const AttentionDense& forward, ValueId dy,
                                      const AttentionDenseAttributes& how, NodeOptions options) {
  const auto outputs = graph.add_node(QUERN_OP_ATTENTION_BACKWARD, {in.q, in.k, in.v, forward.y, forward.lse, dy, in.mask, in.sinks},
                                      attributes_of(how), std::move(options));
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace ops

namespace rules {

namespace {

constexpr std::size_t q = 0, k = 1, v = 2;

/// Checks q, k, v and what masks them; returns the shape of y.
Shape dense_rule(OpCall& call, std::size_t mask, std::size_t sinks) {
  for (const std::size_t i : {q, k, v}) {
    call.dtype(i, floats);
    call.rank_is(i, 4);
    call.dtype_as(i, q);
  }
  call.same_dim(k, 0, q, 0);
  call.same_dim(k, 3, q, 3);
  for (const std::size_t d : {0u, 1u, 2u}) call.same_dim(v, d, k, d);
  head_groups_rule(call, q, 2, k, 2);
  call.dtype(mask, floats);
  call.rank_at_least(mask, 2);
  call.broadcasts(mask, {call.dim(q, 0), call.dim(q, 2), call.dim(q, 1), call.dim(k, 1)});
  call.dtype(sinks, f32_only);
  if (call.has(sinks)) call.shape_is(sinks, {call.dim(q, 2)});
  call.positive(QUERN_KEY_SCALE);
  attention_attributes_rule(call);
  return {call.dim(q, 0), call.dim(q, 1), call.dim(q, 2), call.dim(v, 3)};
}

}  // namespace

void attention_dense(OpCall& call) {
  Shape y = dense_rule(call, 3, 4);
  call.out(0, call.in(q).dtype, std::move(y));
  call.out(1, QUERN_F32, {call.dim(q, 0), call.dim(q, 1), call.dim(q, 2)});
}

void attention_backward(OpCall& call) {
  constexpr std::size_t y = 3, lse = 4, dy = 5;
  const Shape shape = dense_rule(call, 6, 7);
  for (const std::size_t i : {y, dy}) {
    call.dtype_as(i, q);
    call.shape_is(i, shape);
  }
  call.dtype(lse, f32_only);
  call.shape_is(lse, {call.dim(q, 0), call.dim(q, 1), call.dim(q, 2)});
  for (const std::size_t i : {q, k, v}) call.out(i, call.in(i).dtype, call.shape(i));
}

}  // namespace rules

namespace gradients {

void attention_dense(GradientCall& call) { attention_gradient(call, QUERN_OP_ATTENTION_BACKWARD, {}, {3, 4}); }

}  // namespace gradients
}  // namespace quern::graph
