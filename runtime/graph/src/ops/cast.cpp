// y = x in another dtype.
#include "quern/graph/ops/copy.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId cast(Graph& graph, ValueId x, quern_dtype dtype, NodeOptions options) {
  options.output_dtype = dtype;
  return graph.add_node(QUERN_OP_CAST, {x}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

void cast(OpCall& call) {
  call.dtype(0, all_types);
  const quern_dtype to = call.out_dtype(QUERN_DTYPE_NONE, all_types);
  const quern_dtype from = call.in(0).dtype;
  if (is_block_format(to) && from != QUERN_F32)
    call.fail(call.text(0), " and y is asked for as ", dtype_name(to), "; only f32 is encoded into a block format");
  if (is_block_format(from) && to == QUERN_I32)
    call.fail(call.text(0), " and y is asked for as i32; a block format decodes to f32, f16 or bf16");
  call.out(0, to, call.shape(0));
}

}  // namespace rules

namespace gradients {

/// Rounding counts as the identity.
void cast(GradientCall& call) { call.give(0, call.as(call.dy(), call.sum_dtype(0))); }

}  // namespace gradients
}  // namespace quern::graph
