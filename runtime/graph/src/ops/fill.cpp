// Every element is one number.
#include "quern/graph/ops/elementwise.hpp"

#include "../op_call.hpp"

#include <cmath>

namespace quern::graph {
namespace ops {

ValueId fill(Graph& graph, Shape shape, quern_dtype dtype, double value, NodeOptions options) {
  options.output_shape = std::move(shape);
  options.output_dtype = dtype;
  return graph.add_node(QUERN_OP_FILL, {}, Attributes().set(QUERN_KEY_VALUE, value), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void fill(OpCall& call) {
  const quern_dtype dtype = call.out_dtype(QUERN_F32, {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_I32});
  const double value = call.number(QUERN_KEY_VALUE);
  if (dtype == QUERN_I32 && !(value >= -0x1p31 && value < 0x1p31 && std::trunc(value) == value))
    call.fail("value is ", value, ", which i32 cannot hold");
  call.out(0, dtype, call.out_shape(0));
}

}  // namespace rules
}  // namespace quern::graph
