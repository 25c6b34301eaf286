// Ops over the ranks of a communicator. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

namespace quern::graph::ops {

/// y like x: the sum (kind 0), max (1) or mean (2) over the ranks; f32, f16 or bf16.
ValueId all_reduce(Graph& graph, ValueId x, std::int64_t kind = 0, NodeOptions options = {});
/// y [shape]: the x of all ranks one after another along axis, where its size is a multiple of that of x; f32, f16, bf16, i32
/// or a block format.
ValueId all_gather(Graph& graph, ValueId x, Shape shape, std::int64_t axis = 0, NodeOptions options = {});
/// y [shape]: this rank's part along axis of the sum of x over the ranks; f32, f16 or bf16.
ValueId reduce_scatter(Graph& graph, ValueId x, Shape shape, std::int64_t axis = 0, NodeOptions options = {});
/// y like x: the x of rank root; f32, f16, bf16, i32 or a block format.
ValueId broadcast(Graph& graph, ValueId x, std::int64_t root = 0, NodeOptions options = {});

}  // namespace quern::graph::ops
