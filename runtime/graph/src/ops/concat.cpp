// Values one after another along an axis.
#include "quern/graph/ops/copy.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "../checked.hpp"

namespace quern::graph {
namespace ops {

ValueId concat(Graph& graph, std::vector<ValueId> x, std::int64_t axis, NodeOptions options) {
  return graph.add_node(QUERN_OP_CONCAT, std::move(x), Attributes().set(QUERN_KEY_AXIS, axis), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void concat(OpCall& call) {
  call.dtype(0, all_types);
  const std::size_t axis = call.axis(QUERN_KEY_AXIS, 0);
  std::int64_t total = call.fixed(0, axis);
  for (std::size_t i = 1; i < call.count(); ++i) {
    call.dtype_as(i, 0);
    call.rank_is(i, call.rank(0));
    for (std::size_t d = 0; d < call.rank(0); ++d)
      if (d != axis) call.same_dim(i, d, 0, d);
    if (add_overflows(total, call.fixed(i, axis), total)) call.fail("the sizes along axis ", axis, " overflow");
  }
  Shape shape = call.shape(0);
  shape[axis] = Dim(total);
  call.out(0, call.in(0).dtype, std::move(shape));
}

}  // namespace rules

namespace gradients {

void concat(GradientCall& call) {
  const auto axis = static_cast<std::size_t>(call.integer(QUERN_KEY_AXIS));
  const std::vector<std::int64_t> strides = call.graph().strides(call.dy());
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < call.count(); ++i) {
    const Shape shape = call.shape(i);
    if (call.wants(i)) call.give(i, call.graph().view(call.dy(), shape, strides, offset));
    offset += static_cast<std::uint64_t>(shape[axis].size * strides[axis]);
  }
}

}  // namespace gradients
}  // namespace quern::graph
