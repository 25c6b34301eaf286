// sum = a + b and y = rms_norm(sum) in one.
#include "quern/graph/ops/norm.hpp"

#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph {
namespace ops {

AddRmsNorm add_rms_norm(Graph& graph, ValueId a, ValueId b, ValueId weight, const RmsNormAttributes& how, NodeOptions options) {
  const auto outputs =
      graph.add_node(QUERN_OP_ADD_RMS_NORM, {a, b, weight},
                     Attributes().set(QUERN_KEY_EPSILON, how.epsilon).set(QUERN_KEY_WEIGHT_OFFSET, how.weight_offset), std::move(options));
  return {outputs[0], outputs[1]};
}

}  // namespace ops

namespace rules {

void add_rms_norm(OpCall& call) {
  norm_rows_rule(call, {2});
  call.finite(QUERN_KEY_WEIGHT_OFFSET);
  call.dtype_as(1, 0);
  call.same_shape(1, 0);
  call.out(0, call.in(0).dtype, call.shape(0));
  call.out(1, call.in(0).dtype, call.shape(0));
}

}  // namespace rules
}  // namespace quern::graph
