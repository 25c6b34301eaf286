// y = alpha * a b^T + bias + beta * c.
#include "quern/graph/ops/matmul.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId matmul(Graph& graph, ValueId a, ValueId b, ValueId bias, ValueId c, const MatmulAttributes& how, NodeOptions options) {
  return graph.add_node(QUERN_OP_MATMUL, {a, b, bias, c},
                        Attributes()
                            .set(QUERN_KEY_TRANSPOSE_A, how.transpose_a)
                            .set(QUERN_KEY_TRANSPOSE_B, how.transpose_b)
                            .set(QUERN_KEY_ALPHA, how.alpha)
                            .set(QUERN_KEY_BETA, how.beta),
                        std::move(options))[0];
}

ValueId matmul(Graph& graph, ValueId a, ValueId b, NodeOptions options) {
  return graph.add_node(QUERN_OP_MATMUL, {a, b}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

namespace {

/// Each leading dimension of b divides that of a, which then repeats it for whole groups.
void leading_rule(const OpCall& call) {
  if (call.rank(1) > call.rank(0)) call.fail(call.text(0), " but ", call.text(1), ": b may not have more dimensions than a");
  for (std::size_t d = 0; d + 2 < call.rank(1); ++d) {
    const std::size_t e = d + call.rank(0) - call.rank(1);
    const Dim& a = call.dim(0, e);
    const Dim& b = call.dim(1, d);
    const bool divides = a.symbol == 0 && b.symbol == 0 && b.size > 0 && a.size % b.size == 0;
    if (a != b && b != Dim(1) && !divides)
      call.fail(call.text(0), " but ", call.text(1), ": dimension ", d, " of b must divide dimension ", e, " of a");
  }
}

}  // namespace

void matmul(OpCall& call) {
  call.dtype(0, floats);
  call.dtype(1, weight_types);
  call.rank_at_least(0, 2);
  call.rank_at_least(1, 2);
  call.flag(QUERN_KEY_TRANSPOSE_A);
  call.flag(QUERN_KEY_TRANSPOSE_B);
  call.finite(QUERN_KEY_ALPHA);
  call.finite(QUERN_KEY_BETA);
  const bool transpose_a = call.integer(QUERN_KEY_TRANSPOSE_A) != 0;
  const bool transpose_b = call.integer(QUERN_KEY_TRANSPOSE_B) != 0;
  if (transpose_b && is_block_format(call.in(1).dtype)) call.fail(call.text(1), "; transpose_b takes f32, f16 or bf16 only");
  const std::size_t a_rows = call.rank(0) - 2, a_columns = call.rank(0) - 1;
  const std::size_t b_rows = call.rank(1) - 2, b_columns = call.rank(1) - 1;
  const Dim m = call.dim(0, transpose_a ? a_columns : a_rows);
  const Dim n = call.dim(1, transpose_b ? b_columns : b_rows);
  call.same_dim(0, transpose_a ? a_rows : a_columns, 1, transpose_b ? b_rows : b_columns);
  leading_rule(call);
  Shape y(call.shape(0).begin(), call.shape(0).end() - 2);
  y.push_back(m);
  y.push_back(n);
  const quern_dtype dtype = call.out_dtype(call.in(0).dtype, floats);
  call.dtype(2, f32_only);
  call.shape_is(2, {n});
  call.shape_is(3, y);
  call.dtype(3, {dtype});
  call.out(0, dtype, std::move(y));
}

}  // namespace rules
}  // namespace quern::graph
