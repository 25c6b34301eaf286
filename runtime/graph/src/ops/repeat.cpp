// x again and again until it fills y; and the sum over those repeats.
#include "quern/graph/ops/copy.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId repeat(Graph& graph, ValueId x, Shape shape, NodeOptions options) {
  options.output_shape = std::move(shape);
  return graph.add_node(QUERN_OP_REPEAT, {x}, {}, std::move(options))[0];
}

ValueId sum_to(Graph& graph, ValueId x, Shape shape, NodeOptions options) {
  options.output_shape = std::move(shape);
  return graph.add_node(QUERN_OP_SUM_TO, {x}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

namespace {

/// Whether `small`, aligned at the last dimension, fills `large` a whole number of times.
bool fills(const Shape& small, const Shape& large) {
  if (small.size() > large.size()) return false;
  for (std::size_t i = 0; i < small.size(); ++i) {
    const Dim& s = small[i];
    const Dim& l = large[large.size() - small.size() + i];
    if (s == l || s == Dim(1)) continue;
    if (s.symbol != 0 || l.symbol != 0 || s.size == 0 || l.size % s.size != 0) return false;
  }
  return true;
}

}  // namespace

void repeat(OpCall& call) {
  call.dtype(0, floats);
  const Shape& y = call.out_shape(0);
  if (!fills(call.shape(0), y))
    call.fail(call.text(0), " but y is ", call.text(y), "; each dimension of y must be a multiple of that of x");
  call.out(0, call.in(0).dtype, y);
}

void sum_to(OpCall& call) {
  call.dtype(0, floats);
  const Shape& y = call.out_shape(0);
  if (!fills(y, call.shape(0)))
    call.fail(call.text(0), " but y is ", call.text(y), "; each dimension of x must be a multiple of that of y");
  call.out(0, call.in(0).dtype, y);
}

}  // namespace rules

namespace gradients {

void repeat(GradientCall& call) { call.give(0, call.summed(call.dy(), 0)); }

void sum_to(GradientCall& call) { call.give(0, ops::repeat(call.graph(), call.dy(), call.shape(0), call.how())); }

}  // namespace gradients
}  // namespace quern::graph
