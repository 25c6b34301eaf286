// A host's graph as this plugin keeps it: the SDK's checked copy, with views resolved, layouts read, and an answer for each node.
#pragma once

#include "op.hpp"
#include "quern/sdk/overlap.hpp"

#include <deque>
#include <vector>

namespace quern::cuda {

struct Value {
  Tensor tensor;               // data 0; dims at their largest
  std::uint32_t root = 0;      // the value whose memory this is
  std::uint64_t offset = 0;    // bytes from the start of the root
  std::uint64_t bytes = 0;     // at the largest dims
  std::string refusal;         // why nodes that touch it cannot run here
};

struct Node {
  std::uint32_t op = 0;
  std::vector<std::uint32_t> inputs, outputs;
  std::uint32_t predicate = QUERN_NONE;
  std::unique_ptr<sdk::Attributes> attributes;
  bool int8_allowed = false, bf16_allowed = false, f16_allowed = false, invariant = false;
  const Op* implementation = nullptr;
  std::string refusal;
  std::string name;
};

struct Graph {
  sdk::Graph source;
  std::vector<Value> values;
  std::vector<Node> nodes;

  /// Throws Failure for a malformed graph; what this plugin cannot run is in the nodes' refusals.
  explicit Graph(const quern_graph* graph);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Whether the host reads the predicate of a node between two kernels.
  bool asks_host(const Node& node) const noexcept { return node.predicate != QUERN_NONE && !node.implementation->asks_predicate; }
  bool internal(std::uint32_t root) const noexcept { return source.values[root].kind == QUERN_VALUE_INTERNAL; }
  /// The dims of a value under the given extents of its symbols.
  void shape(std::uint32_t value, const std::vector<std::int64_t>& extents, Tensor& tensor) const noexcept;
  /// The call of a node; `storage` holds its tensors, at their largest dims.
  Call describe(const Node& node, std::vector<Tensor>& storage) const;
};

}  // namespace quern::cuda
