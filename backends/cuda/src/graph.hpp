// A host's graph as this plugin keeps it: the SDK's, with this plugin's answers.
#pragma once

#include "op.hpp"

#include <deque>
#include <vector>

namespace quern::cuda {

using Node = sdk::ResolvedNode;
using Value = sdk::ResolvedValue;

struct Graph : sdk::ResolvedGraph {
  explicit Graph(const quern_graph* graph) : ResolvedGraph(graph, offers()) {}
};

/// The row of a node that runs here.
inline const Op& implementation_of(const Node& node) noexcept { return static_cast<const Op&>(*node.offer); }
/// Whether the host reads the predicate of a node between two kernels.
inline bool asks_host(const Node& node) noexcept { return node.predicate != QUERN_NONE && !node.offer->row_predicate; }

}  // namespace quern::cuda
