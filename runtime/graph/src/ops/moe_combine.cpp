// The weighted sum of what the experts of a row gave.
#include "quern/graph/ops/moe.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "quern/graph/ops/reduction.hpp"
#include "quern/graph/ops/elementwise.hpp"
#include "quern/graph/ops/copy.hpp"

namespace quern::graph {
namespace ops {

ValueId moe_combine(Graph& graph, ValueId x, ValueId weight, NodeOptions options) {
  return graph.add_node(QUERN_OP_MOE_COMBINE, {x, weight}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void moe_combine(OpCall& call) {
  call.dtype(0, floats);
  call.rank_is(0, 3);
  call.dtype(1, f32_only);
  call.shape_is(1, {call.dim(0, 0), call.dim(0, 1)});
  call.out(0, call.in(0).dtype, {call.dim(0, 0), call.dim(0, 2)});
}

}  // namespace rules

namespace gradients {

/// dx[t][u] = weight[t][u] * dy[t], dweight[t][u] = the sum of x[t][u] * dy[t]; in f32.
void moe_combine(GradientCall& call) {
  constexpr std::size_t x = 0, weight = 1;
  Graph& graph = call.graph();
  const Shape shape = call.shape(x);
  const ValueId dy = call.reshaped(call.as(call.dy(), QUERN_F32), {shape[0], 1, shape[2]});
  if (call.wants(x)) {
    const ValueId factor = call.reshaped(call.in(weight), {shape[0], shape[1], 1});
    call.give(x, ops::mul(graph, ops::repeat(graph, dy, shape, call.how()), factor, call.how()));
  }
  if (call.wants(weight)) {
    const ValueId products = ops::mul(graph, call.as(call.in(x), QUERN_F32), dy, call.how());
    call.give(weight, call.reshaped(ops::sum_rows(graph, products, call.how()), call.shape(weight)));
  }
}

}  // namespace gradients
}  // namespace quern::graph
