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
/// An attribute as kernels take it.
inline float real_of(const Node& node, std::uint32_t key) { return static_cast<float>(node.attributes->real(key)); }
/// Whether the host reads the predicate of a node between two kernels.
inline bool asks_host(const Node& node) noexcept { return node.predicate != QUERN_NONE && !node.offer->row_predicate; }

}  // namespace quern::cuda
