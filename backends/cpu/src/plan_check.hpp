// Rules about a graph's memory: who may write what, in which order, and what may overlap.
#pragma once

#include "graph.hpp"

namespace quern::cpu {

/// In place is allowed where input and output are the same view, for elementwise, activation, norm and rope ops, and for state.
/// Anything else that shares bytes is refused.
Verdict check_overlap(const Graph& graph, const Node& node);

/// Nodes stand in an order in which they may run: an internal value is written before it is read, every output is written, and
/// constants and inputs never are. Throws Error(INVALID_ARGUMENT) naming the node.
void check_order(const Graph& graph);

}  // namespace quern::cpu
