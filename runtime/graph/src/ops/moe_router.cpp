// The best experts of each row and their weights, and the gradient for the logits.
#include "quern/graph/ops/moe.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

namespace {

Attributes attributes_of(const MoeRouterAttributes& how) {
  return Attributes()
      .set(QUERN_KEY_USED, how.used)
      .set(QUERN_KEY_KIND, how.kind)
      .set(QUERN_KEY_RENORMALISE, how.renormalise)
      .set(QUERN_KEY_SCALE, how.scale);
}

}  // namespace

MoeRouter moe_router(Graph& graph, ValueId logits, ValueId bias, const MoeRouterAttributes& how, NodeOptions options) {
  const auto outputs = graph.add_node(QUERN_OP_MOE_ROUTER, {logits, bias}, attributes_of(how), std::move(options));
  return {outputs[0], outputs[1]};
}

ValueId moe_router_backward(Graph& graph, ValueId logits, ValueId bias, ValueId id, ValueId dweight, const MoeRouterAttributes& how,
                            NodeOptions options) {
  return graph.add_node(QUERN_OP_MOE_ROUTER_BACKWARD, {logits, bias, id, dweight}, attributes_of(how), std::move(options))[0];
}

}  // namespace ops

namespace rules {

namespace {

/// Checks logits, bias and attributes; returns [t, used].
Shape router_rule(OpCall& call) {
  call.dtype(0, f32_only);
  call.rank_is(0, 2);
  call.dtype(1, f32_only);
  const std::int64_t experts = call.fixed(0, 1);
  call.shape_is(1, {experts});
  const std::int64_t used = call.integer(QUERN_KEY_USED);
  if (used < 1 || used > experts)
    call.fail("used is ", used, " but ", call.text(0), " has ", experts, " experts; used must be 1 to ", experts);
  call.choice(QUERN_KEY_KIND, 2);
  call.flag(QUERN_KEY_RENORMALISE);
  call.finite(QUERN_KEY_SCALE);
  return {call.dim(0, 0), used};
}

}  // namespace

void moe_router(OpCall& call) {
  const Shape chosen = router_rule(call);
  call.out(0, QUERN_I32, chosen);
  call.out(1, QUERN_F32, chosen);
}

void moe_router_backward(OpCall& call) {
  const Shape chosen = router_rule(call);
  call.dtype(2, i32_only);
  call.shape_is(2, chosen);
  call.dtype(3, f32_only);
  call.shape_is(3, chosen);
  call.out(0, QUERN_F32, call.shape(0));
}

}  // namespace rules

namespace gradients {

/// The bias counts for the choice alone, which steps.
void moe_router(GradientCall& call) {
  constexpr std::size_t logits = 0, bias = 1, id = 0, weight = 1;
  if (call.wants(bias)) call.has_none(bias);
  if (!call.wants(logits)) return;
  call.give(logits, call.add(QUERN_OP_MOE_ROUTER_BACKWARD, {call.in(logits), call.in(bias), call.out(id), call.dy(weight)},
                             call.node().attributes)[0]);
}

}  // namespace gradients
}  // namespace quern::graph
