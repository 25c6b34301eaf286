// Reductions. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

namespace quern::graph::ops {

/// y [1]: the sum of all elements of x f32, f16 or bf16, in blocked f32 sums; y in the dtype of x, or f32 by
/// options.output_dtype.
ValueId sum(Graph& graph, ValueId x, NodeOptions options = {});
/// y [1]: the mean of all elements. Dtypes as sum.
ValueId mean(Graph& graph, ValueId x, NodeOptions options = {});
/// y [1]: the root of the sum of squares. Dtypes as sum.
ValueId norm(Graph& graph, ValueId x, NodeOptions options = {});
/// y [..., 1]: the sum of each row of x [..., n]. Dtypes as sum.
ValueId sum_rows(Graph& graph, ValueId x, NodeOptions options = {});
/// y [...]: the largest of each row of x [..., n], n >= 1; NaN wins. f32, f16 or bf16.
ValueId max(Graph& graph, ValueId x, NodeOptions options = {});
/// count i64 [1]: how many elements of a and b, i32 of one shape, are equal.
ValueId count_equal(Graph& graph, ValueId a, ValueId b, NodeOptions options = {});

}  // namespace quern::graph::ops
