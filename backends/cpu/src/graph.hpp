// The host's graph as the SDK checked it, and its nodes as kernels see them.
#pragma once

#include "kernel.hpp"

#include "quern/sdk/resolved.hpp"

#include <vector>

namespace quern::cpu {

using Graph = sdk::ResolvedGraph;
using Node = sdk::ResolvedNode;

/// The call of a node as its kernels see it at compile time. The tensors live in `storage`.
Call describe_call(const Graph& graph, const Node& node, std::uint32_t thread_count, bool deterministic, std::vector<Tensor>& storage);

}  // namespace quern::cpu
