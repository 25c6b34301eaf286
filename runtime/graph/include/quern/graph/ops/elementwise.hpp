// Arithmetic on elements. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

namespace quern::graph::ops {

/// y = a + alpha * b. Residuals and biases.
///
///   a      [...]  f32, f16 or bf16
///   b      broadcasts to a: counted from the last dimension, each is 1 or equal; the dtype of a
///   alpha  finite
///   y      like a; in place on a, or on b if b has the shape of a
ValueId add(Graph& graph, ValueId a, ValueId b, double alpha = 1, NodeOptions options = {});

/// y = a - b. Shapes, dtypes and aliasing as add.
ValueId sub(Graph& graph, ValueId a, ValueId b, NodeOptions options = {});

/// y = a * b. Shapes, dtypes and aliasing as add.
ValueId mul(Graph& graph, ValueId a, ValueId b, NodeOptions options = {});

/// y = a / b, by IEEE rules for zeros and infinities. Shapes, dtypes and aliasing as add.
ValueId div(Graph& graph, ValueId a, ValueId b, NodeOptions options = {});

/// y = alpha * x + beta, alpha and beta finite; x f32, f16 or bf16, y like x; in place.
ValueId scale(Graph& graph, ValueId x, double alpha, double beta = 0, NodeOptions options = {});

/// y = -x, -0 for 0; x f32, f16 or bf16, y like x; in place.
ValueId neg(Graph& graph, ValueId x, NodeOptions options = {});

/// y = x * x; x f32, f16 or bf16, y like x; in place.
ValueId sqr(Graph& graph, ValueId x, NodeOptions options = {});

/// y = root of x, NaN below 0; x f32, f16 or bf16, y like x; in place.
ValueId sqrt(Graph& graph, ValueId x, NodeOptions options = {});

/// y = |x|; x f32, f16 or bf16, y like x; in place. Its gradient at 0 is 0.
ValueId abs(Graph& graph, ValueId x, NodeOptions options = {});

/// y = min(max(x, min), max), min <= max, both may be infinite; NaN stays NaN; x f32, f16 or bf16, y like x; in place.
ValueId clamp(Graph& graph, ValueId x, double min, double max, NodeOptions options = {});

/// Every element of y [shape] is value; y f32, f16, bf16 or i32. For i32 the value is an integer in its range.
ValueId fill(Graph& graph, Shape shape, quern_dtype dtype, double value, NodeOptions options = {});

/// y[.., i] = x[.., 0] + ... + x[.., i], accumulated in f32; x f32, f16 or bf16 with at least one dimension, y like x.
ValueId cumsum(Graph& graph, ValueId x, NodeOptions options = {});

}  // namespace quern::graph::ops
