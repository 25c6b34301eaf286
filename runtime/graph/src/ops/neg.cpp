// y = -x, element by element.
#include "quern/graph/ops/elementwise.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

ValueId neg(Graph& graph, ValueId x, NodeOptions options) { return graph.add_node(QUERN_OP_NEG, {x}, {}, std::move(options))[0]; }

}  // namespace ops

namespace rules {

void neg(OpCall& call) { unary_rule(call); }

}  // namespace rules

namespace gradients {

void neg(GradientCall& call) { call.give(0, ops::neg(call.graph(), call.dy(), call.how())); }

}  // namespace gradients
}  // namespace quern::graph
