// Softmax attention within packed examples, and its gradients.
#include "quern/graph/ops/attention.hpp"

#include "attention_rules.hpp"

namespace quern::graph {
namespace ops {

namespace {

Attributes attributes_of(const AttentionRaggedAttributes& how) {
  return Attributes()
      .set(QUERN_KEY_SCALE, how.scale)
      .set(QUERN_KEY_CAUSAL, how.causal)
      .set(QUERN_KEY_WINDOW, how.window)
      .set(QUERN_KEY_SOFTCAP, how.softcap);
}

}  // namespace

AttentionRagged attention_ragged(Graph& graph, const AttentionRaggedInputs& in, const AttentionRaggedAttributes& how, NodeOptions options) {
  const auto outputs = graph.add_node(QUERN_OP_ATTENTION_RAGGED, {in.q, in.k, in.v, in.start}, attributes_of(how), std::move(options));
  return {outputs[0], outputs[1]};
}

AttentionGradients attention_ragged_backward(Graph& graph, const AttentionRaggedInputs& in, const AttentionRagged& forward, ValueId dy,
                                             const AttentionRaggedAttributes& how, NodeOptions options) {
  const auto outputs = graph.add_node(QUERN_OP_ATTENTION_RAGGED_BACKWARD, {in.q, in.k, in.v, in.start, forward.y, forward.lse, dy},
                                      attributes_of(how), std::move(options));
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace ops

namespace {

enum : std::size_t { q_in, k_in, v_in, start_in };

}  // namespace

namespace rules {

namespace {

/// Checks q, k, v and start; returns the shape of y.
Shape ragged_rule(OpCall& call) {
  for (const std::size_t i : {q_in, k_in, v_in}) {
    call.dtype(i, floats);
    call.rank_is(i, 3);
    call.dtype_as(i, q_in);
    call.same_dim(i, 0, q_in, 0);
  }
  call.same_dim(k_in, 2, q_in, 2);
  call.same_dim(v_in, 1, k_in, 1);
  head_groups_rule(call, q_in, 1, k_in, 1);
  call.dtype(start_in, i32_only);
  call.rank_is(start_in, 1);
  if (call.dim(start_in, 0).size < 1) call.fail(call.text(start_in), "; it has the end of the rows behind the start of each example");
  call.positive(QUERN_KEY_SCALE);
  score_attributes_rule(call);
  return {call.dim(q_in, 0), call.dim(q_in, 1), call.dim(v_in, 2)};
}

}  // namespace

void attention_ragged(OpCall& call) {
  Shape y = ragged_rule(call);
  call.out(0, call.in(q_in).dtype, std::move(y));
  call.out(1, QUERN_F32, {call.dim(q_in, 0), call.dim(q_in, 1)});
}

void attention_ragged_backward(OpCall& call) {
  constexpr std::size_t y = 4, lse = 5, dy = 6;
  const Shape shape = ragged_rule(call);
  for (const std::size_t i : {y, dy}) {
    call.dtype_as(i, q_in);
    call.shape_is(i, shape);
  }
  call.dtype(lse, f32_only);
  call.shape_is(lse, {call.dim(q_in, 0), call.dim(q_in, 1)});
  for (const std::size_t i : {q_in, k_in, v_in}) call.out(i, call.in(i).dtype, call.shape(i));
}

}  // namespace rules

namespace gradients {

void attention_ragged(GradientCall& call) { attention_gradient(call, QUERN_OP_ATTENTION_RAGGED_BACKWARD, {start_in}, {}); }

}  // namespace gradients
}  // namespace quern::graph
