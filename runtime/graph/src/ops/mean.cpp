// The mean of all elements.
#include "quern/graph/ops/reduction.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "reduction_gradient.hpp"
#include "quern/graph/ops/elementwise.hpp"

namespace quern::graph {
namespace ops {

ValueId mean(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_MEAN, {x}, {}, std::move(options))[0]; }

}  // namespace ops

namespace rules {

void mean(OpCall& call) {
  call.dtype(0, floats);
  call.out(0, call.out_dtype(call.in(0).dtype, {QUERN_F32, call.in(0).dtype}), {1});
}

}  // namespace rules

namespace gradients {

/// dx = dy / n; where dimensions are ranged, n is counted on the device.
void mean(GradientCall& call) {
  Graph& graph = call.graph();
  Shape ranged;
  double fixed = 1;
  for (const Dim& dim : call.shape(0)) {
    if (dim.symbol != 0) ranged.push_back(dim);
    else fixed *= static_cast<double>(dim.size);
  }
  ValueId dy = call.as(call.dy(), QUERN_F32);
  if (!ranged.empty())
    dy = ops::div(graph, dy, ops::sum(graph, ops::fill(graph, ranged, QUERN_F32, 1, call.how()), call.how()), call.how());
  repeated(call, fixed > 1 ? ops::scale(graph, dy, 1 / fixed, 0, call.how()) : dy);
}

}  // namespace gradients
}  // namespace quern::graph
