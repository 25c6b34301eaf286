// The host's graph as the SDK checked it, and its nodes as kernels see them.
#pragma once

#include "kernel.hpp"

#include "quern/sdk/resolved.hpp"

#include <vector>

namespace quern::cpu {

using Graph = sdk::ResolvedGraph;
using Node = sdk::ResolvedNode;

/// A value without its address, at the largest dims.
TensorView view_of(const sdk::ResolvedValue& value);

/// The call of a node as its kernels see it at compile time. The views live in `storage`.
OpCall describe_call(const Graph& graph, const Node& node, std::uint32_t thread_count, bool deterministic,
                     std::vector<TensorView>& storage);

}  // namespace quern::cpu
