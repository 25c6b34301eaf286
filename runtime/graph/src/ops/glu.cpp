// y = f(gate) * up, and its gradients.
#include "quern/graph/ops/activation.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

namespace {

Attributes attributes_of(const GluAttributes& how) {
  return Attributes()
      .set(QUERN_KEY_KIND, how.kind)
      .set(QUERN_KEY_SWAPPED, how.swapped)
      .set(QUERN_KEY_ALPHA, how.alpha)
      .set(QUERN_KEY_LIMIT, how.limit);
}

}  // namespace

ValueId glu(Graph& graph, ValueId gate, ValueId up, const GluAttributes& how, NodeOptions options) {
  return graph.add_node(QUERN_OP_GLU, {gate, up}, attributes_of(how), std::move(options))[0];
}

GluGradients glu_backward(Graph& graph, ValueId gate, ValueId up, ValueId dy, const GluAttributes& how, NodeOptions options) {
  const auto outputs = graph.add_node(QUERN_OP_GLU_BACKWARD, {gate, up, dy}, attributes_of(how), std::move(options));
  return {outputs[0], outputs[1]};
}

}  // namespace ops

namespace rules {

namespace {

/// Checks both factors and returns the shape of y.
Shape factors(OpCall& call) {
  call.choice(QUERN_KEY_KIND, 5);
  call.flag(QUERN_KEY_SWAPPED);
  call.finite(QUERN_KEY_ALPHA);
  const double limit = call.number(QUERN_KEY_LIMIT);
  if (!(static_cast<float>(limit) > 0)) call.fail("limit is ", limit, "; it must be above 0");
  call.dtype(0, floats);
  call.dtype_as(1, 0);
  call.same_shape(1, 0);
  Shape shape = call.shape(0);
  if (call.has(1)) return shape;
  call.rank_at_least(0, 1);
  const std::int64_t both = call.fixed(0, call.rank(0) - 1);
  if (both % 2 != 0) call.fail(call.text(0), "; without up its last dimension holds both halves and must be even");
  shape.back() = Dim(both / 2);
  return shape;
}

}  // namespace

void glu(OpCall& call) {
  Shape shape = factors(call);
  call.out(0, call.in(0).dtype, std::move(shape));
}

void glu_backward(OpCall& call) {
  const Shape shape = factors(call);
  call.dtype_as(2, 0);
  call.shape_is(2, shape);
  call.out(0, call.in(0).dtype, call.shape(0));
  if (call.has(1)) call.out(1, call.in(0).dtype, call.shape(1));
}

}  // namespace rules

namespace gradients {

void glu(GradientCall& call) {
  const auto outputs = call.add(QUERN_OP_GLU_BACKWARD, {call.in(0), call.in(1), call.dy()}, call.node().attributes);
  for (const std::size_t i : {0u, 1u})
    if (call.wants(i)) call.give(i, outputs[i]);
}

}  // namespace gradients
}  // namespace quern::graph
