// Where values lie in the memory of their roots, and which of them overlap.
#pragma once

#include "strides.hpp"

#include <cstdint>
#include <utility>

namespace quern::graph {

/// Bytes [first, end) of the root's memory.
struct Range {
  std::uint64_t first = 0, end = 0;
  bool overlaps(const Range& other) const { return first < other.end && other.first < end; }
  bool holds(const Range& other) const { return first <= other.first && other.end <= end; }
  bool operator==(const Range&) const = default;
};

inline Range memory_range(const Graph& graph, ValueId id) {
  const Value& v = graph.value(id);
  const std::uint64_t bytes = extent_bytes(v.dtype, v.shape, graph.strides(id)).value_or(0);
  return {v.alias_offset, v.alias_offset + bytes};
}

/// Whether the memory of two values may overlap; views that interleave count as overlapping.
inline bool overlap(const Graph& graph, ValueId a, ValueId b) {
  return graph.root(a) == graph.root(b) && memory_range(graph, a).overlaps(memory_range(graph, b));
}

inline bool same_memory(const Graph& graph, ValueId a, ValueId b) {
  return graph.root(a) == graph.root(b) && graph.value(a).alias_offset == graph.value(b).alias_offset &&
         graph.value(a).shape == graph.value(b).shape && graph.strides(a) == graph.strides(b);
}

inline bool is_contiguous(const Graph& graph, ValueId id) { return graph.value(id).strides.empty(); }

inline bool is_float(quern_dtype dtype) { return dtype == QUERN_F32 || dtype == QUERN_F16 || dtype == QUERN_BF16; }

/// "rms_norm 'blk.3.attn_norm'": a node in a message.
inline std::string describe_node(const Node& node) {
  return node.name.empty() ? op_name(node.op) : concat(op_name(node.op), " '", node.name, "'");
}

}  // namespace quern::graph
