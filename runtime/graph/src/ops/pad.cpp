// x with elements of one value around it along an axis.
#include "quern/graph/ops/copy.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "../checked.hpp"

namespace quern::graph {
namespace ops {

ValueId pad(Graph& graph, ValueId x, const PadAttributes& how, NodeOptions options) {
  return graph.add_node(QUERN_OP_PAD, {x},
                        Attributes()
                            .set(QUERN_KEY_AXIS, how.axis)
                            .set(QUERN_KEY_BEFORE, how.before)
                            .set(QUERN_KEY_AFTER, how.after)
                            .set(QUERN_KEY_VALUE, how.value),
                        std::move(options))[0];
}

}  // namespace ops

namespace rules {

void pad(OpCall& call) {
  call.dtype(0, floats);
  const std::size_t axis = call.axis(QUERN_KEY_AXIS, 0);
  call.not_negative(QUERN_KEY_BEFORE);
  call.not_negative(QUERN_KEY_AFTER);
  std::int64_t size = call.fixed(0, axis);
  if (add_overflows(size, call.integer(QUERN_KEY_BEFORE), size) || add_overflows(size, call.integer(QUERN_KEY_AFTER), size))
    call.fail("the size along axis ", axis, " overflows");
  Shape shape = call.shape(0);
  shape[axis] = Dim(size);
  call.out(0, call.in(0).dtype, std::move(shape));
}

}  // namespace rules

namespace gradients {

void pad(GradientCall& call) {
  const auto axis = static_cast<std::size_t>(call.integer(QUERN_KEY_AXIS));
  const std::vector<std::int64_t> strides = call.graph().strides(call.dy());
  const auto offset = static_cast<std::uint64_t>(call.integer(QUERN_KEY_BEFORE) * strides[axis]);
  call.give(0, call.graph().view(call.dy(), call.shape(0), strides, offset));
}

}  // namespace gradients
}  // namespace quern::graph
