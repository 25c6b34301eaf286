// An order of steps that computes a graph, each step some launches, and where its internal values lie in scratch.
//
// The general schedule has a step for each node and serves any extents. The decode schedule (decode.hpp) fuses.
#pragma once

#include "graph.hpp"
#include "orders.hpp"
#include "quern/sdk/told_schedules.hpp"

#include <functional>
#include <memory>

namespace quern::cuda {

/// What a step sees when it runs: tensors of this run.
class StepContext {
 public:
  virtual ~StepContext() = default;
  virtual const Tensor& tensor(std::uint32_t value) const = 0;
  /// Where a value lies; 0 for none.
  Address address(std::uint32_t value) const { return value == QUERN_NONE ? 0 : tensor(value).data; }
  /// The order that a value is the index of, one of Schedule::orders; of none the order in which columns lie.
  virtual Order order(std::uint32_t value) const = 0;
  /// Extra memory of the schedule: slot s of Schedule::extras.
  virtual Address extra(std::uint32_t slot) const = 0;
  virtual Address scratch() const = 0;
  virtual Address counters() const = 0;
};

/// The call of a node with the tensors of a run, which it keeps.
class NodeCall {
 public:
  NodeCall(const Graph& graph, const Node& node) : graph_(&graph), node_(&node), storage_(node.inputs.size() + node.outputs.size()) {}
  const Node& node() const noexcept { return *node_; }
  /// Valid until the next one. Allocates nothing.
  Call in(const StepContext& context);
  /// Input i of the last call, to be changed.
  Tensor& input(std::size_t i) noexcept { return storage_[i]; }
  const Tensor& output() const noexcept { return storage_[node_->inputs.size()]; }

 private:
  const Graph* graph_;
  const Node* node_;
  std::vector<Tensor> storage_;
};

struct Step {
  std::uint32_t first_node = 0;      // for messages
  std::vector<std::uint32_t> nodes;  // that it computes; none: it makes operands for a step to come
  std::string kernel;
  std::vector<std::uint32_t> reads, writes;  // values
  std::vector<std::uint32_t> extras;         // slots that it reads or writes
  std::uint64_t scratch = 0;
  std::function<bool(std::int64_t rows)> idle;  // whether in a run of these rows the next step that is not idle does its work; null: never
  std::function<void(const StepContext&, Launcher&)> emit;
};

class AdaptedGraph;

/// A matrix of a product of many rows; `order`: the value whose index its columns are in, or none.
struct DenseWeight {
  std::uint32_t weight, order = QUERN_NONE;
};

struct Schedule {
  std::vector<Step> steps;                                 // none: it serves nothing
  std::vector<sdk::Alone> alone;                           // nodes that no rule took, and why; without steps every node
  std::vector<std::uint64_t> extras;                       // bytes of each extra slot
  std::uint32_t rows_symbol = QUERN_NONE, least_rows = 0;  // serves runs whose extent of this symbol is at least this
  std::vector<std::vector<DenseWeight>> dense;             // of each product of many rows: 16-bit copies help
  std::vector<std::uint32_t> orders;  // values: not for instances that have another index there than one that names each column once
  std::uint32_t outputs_symbol = QUERN_NONE, most_prompt_rows = 0;  // not 0: more rows only where a fourth of them and more have outputs
  std::uint32_t most_rows = 0;  // serves runs whose ranged extents (with rows_symbol: that of it) are all at most this; 0: any

  std::shared_ptr<const AdaptedGraph> adapted;  // the graph that its steps refer to, where it is not the host's

  bool serves(const std::vector<std::int64_t>& extents) const;

  // Filled by place():
  std::vector<std::uint64_t> value_offset, extra_offset;
  std::uint64_t scratch_offset = 0, bytes = 0;
  /// Lays out internal values and extras so that those whose lives do not meet share bytes.
  void place(const Graph& graph);
};

/// One step a node.
Schedule general_schedule(const Graph& graph);

/// What is said of each node where a schedule has no steps.
template <class Why>
std::vector<sdk::Alone> alone_in_all(const Graph& graph, const Why& why) {
  std::vector<sdk::Alone> alone;
  for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) alone.push_back(why(n));
  return alone;
}
/// A schedule without steps, for one reason that holds of all nodes.
Schedule no_schedule(const Graph& graph, std::string_view rule, std::string_view reason);
/// Schedules that fuse are chosen by the extents of ranged dims.
inline Schedule without_symbols(const Graph& graph) {
  return no_schedule(graph, "rows", "the graph has no ranged extent, by which kernels of few or many rows are chosen");
}

}  // namespace quern::cuda
