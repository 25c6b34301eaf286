// Copies, conversions and repeats. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

#include <vector>

namespace quern::graph::ops {

/// y = x with its shape and dtype: f32, f16, bf16, i32 or a block format. Either may be a strided view, so this also makes
/// values contiguous and transposes.
ValueId copy(Graph& graph, ValueId x, NodeOptions options = {});

/// y = x as `dtype`, rounded to nearest even. f32, f16, bf16 and i32 into each other; a block format into f32, f16 or bf16,
/// decoded exactly and rounded once; f32 into a block format by the encoding rule of that format.
ValueId cast(Graph& graph, ValueId x, quern_dtype dtype, NodeOptions options = {});

/// The x one after another along `axis`, whose sizes are fixed; all other dimensions and the dtype are equal.
/// f32, f16, bf16, i32 or a block format.
ValueId concat(Graph& graph, std::vector<ValueId> x, std::int64_t axis, NodeOptions options = {});

struct PadAttributes {
  std::int64_t axis = 0;
  std::int64_t before = 0;  // elements, >= 0
  std::int64_t after = 0;
  double value = 0;
};
/// y is x with `before` and `after` elements of `value` along `axis`, whose size is fixed. x f32, f16 or bf16.
ValueId pad(Graph& graph, ValueId x, const PadAttributes& how, NodeOptions options = {});

/// y [shape] is x over and over: counted from the last dimension, each of y is a multiple of that of x; a ranged one is equal,
/// or x has 1 there. x f32, f16 or bf16.
ValueId repeat(Graph& graph, ValueId x, Shape shape, NodeOptions options = {});
/// y [shape] is x summed over its repeats, in f32: the transpose of repeat and of broadcasting.
ValueId sum_to(Graph& graph, ValueId x, Shape shape, NodeOptions options = {});

}  // namespace quern::graph::ops
