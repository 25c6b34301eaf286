// The graph as the plugin keeps it: a checked copy of what the host passed, with nothing left to doubt.
//
// read_graph() walks the host's arrays by their strides and reads only inside the sizes they state. Faults of the whole (an id
// out of range, a shape that overflows) throw; faults of a node (an unknown op, bit or key) are that node's "no".
#pragma once

#include "kernel.hpp"

#include "quern/quern_graph.h"

#include <string>
#include <vector>

namespace quern::cpu {

struct Symbol {
  std::int64_t min = 0, max = 0, multiple_of = 1;
  std::uint32_t extent = QUERN_NONE;
};

struct Value {
  std::uint32_t kind = QUERN_VALUE_INTERNAL;
  TensorView view;  // data null; dims at their largest
  std::uint32_t symbols[QUERN_MAX_DIMS] = {};
  std::uint32_t root = 0;         // the value whose memory this is; its own id if it is no alias
  std::uint64_t root_offset = 0;  // bytes from the start of the root
  std::uint64_t bytes = 0;        // from the first to the last byte, at the largest dims
  std::string name;
  Verdict verdict;  // "no" if a node that touches this value cannot run here
};

struct Node {
  std::uint32_t op = 0;
  std::vector<std::uint32_t> inputs, outputs;  // QUERN_NONE: absent
  std::vector<AttributeValue> attributes;
  std::uint32_t predicate = QUERN_NONE;
  bool row_predicate = false;  // one element a row; otherwise the plan asks it
  bool invariant = false;
  std::uint32_t conversions = 0;  // to what its float inputs may be rounded: QUERN_CONVERT_...
  std::string name;
  Verdict verdict;
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Symbol> symbols;
};

/// Throws Error(INVALID_ARGUMENT or UNSUPPORTED) naming the value, node and field.
Graph read_graph(const quern_graph* graph);

/// Bytes from the first to the last of a view with these dims. 0 if a dim is 0. Dims are at most those checked at compile.
std::uint64_t view_bytes(const TensorView& view) noexcept;

/// The call of a node as its kernels see it at compile time. The views live in `storage`.
OpCall describe_call(const Graph& graph, const Node& node, std::uint32_t thread_count, bool deterministic,
                     std::vector<TensorView>& storage);

}  // namespace quern::cpu
