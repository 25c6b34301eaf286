// An order of steps that computes a graph, and where its internal values lie in scratch.
//
// The general schedule has a step for each node and serves any extents. The one of few rows (few_rows.cpp) fuses nodes.
#pragma once

#include "op.hpp"

#include <functional>
#include <vector>

namespace quern::vulkan {

/// What a fused step sees when it is recorded.
class StepContext {
 public:
  virtual ~StepContext() = default;
  virtual Tensor tensor(std::uint32_t value) const = 0;
  /// The address of memory of the schedule.
  virtual std::uint64_t extra(std::uint32_t slot) const = 0;
};

struct Step {
  std::uint32_t node = 0;   // the first one that it computes
  std::uint32_t nodes = 1;  // how many
  std::string kernel;
  /// Empty: the op of the node records it, and what it touches are the node's values.
  std::function<void(const StepContext&, Launcher&)> emit;
  std::vector<std::uint32_t> reads, writes;              // values
  std::vector<std::uint32_t> extra_reads, extra_writes;  // slots of Schedule::extras
};

struct Schedule {
  std::vector<Step> steps;
  std::vector<std::uint64_t> extras;  // bytes of each slot
  std::int64_t most_rows = 0;         // serves runs whose ranged extents are all at most this; 0: any
  std::vector<std::uint64_t> node_scratch;  // of each node that a step leaves to its op
  sdk::ScratchLayout layout;

  bool serves(const std::vector<std::int64_t>& extents) const noexcept {
    for (const std::int64_t e : extents)
      if (most_rows != 0 && e > most_rows) return false;
    return true;
  }
  /// Fills node_scratch and layout.
  void place(const sdk::ResolvedGraph& graph);
};

/// One step a node.
Schedule general_schedule(const sdk::ResolvedGraph& graph);

/// For runs of few rows: products of quantised weights take int8 activations, which norms and SwiGLU make, and add residuals. Without steps
/// where nothing of the graph can be fused.
Schedule few_rows_schedule(const sdk::ResolvedGraph& graph);

}  // namespace quern::vulkan
