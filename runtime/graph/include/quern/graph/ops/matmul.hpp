// The matrix product. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

namespace quern::graph::ops {

struct MatmulAttributes {
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1, beta = 1;
};

/// y = alpha * a b^T + bias + beta * c: b holds n rows of k, as weights do.
///
///   a     [..., m, k]  f32, f16 or bf16; with transpose_a [..., k, m]
///   b     [..., n, k]  f32, f16, bf16 or a block format; with transpose_b [..., k, n], blocks along n
///   bias  [n]          f32
///   c     [..., m, n]  the dtype of y
///   y     [..., m, n]  f32, f16 or bf16 by options.output_dtype; else that of a
///
/// b has at most the dimensions of a; each leading one of b is 1 or divides that of a, whose index is divided by the quotient
/// (query heads that share a key head). options.conversions allows narrower inputs; the sum is f32 in any case.
ValueId matmul(Graph& graph, ValueId a, ValueId b, ValueId bias, ValueId c, const MatmulAttributes& how = {}, NodeOptions options = {});
/// y = a b^T.
ValueId matmul(Graph& graph, ValueId a, ValueId b, NodeOptions options = {});

}  // namespace quern::graph::ops
