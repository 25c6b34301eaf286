// An order of steps that computes a graph, and where its internal values lie in scratch.
//
// The general schedule has a step for each node; the fused one (fused.cpp) joins neighbours.
#pragma once

#include "op.hpp"
#include "quern/sdk/told_schedules.hpp"

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
  std::uint32_t node = 0;            // the first one that it computes
  std::vector<std::uint32_t> nodes;  // all that it computes; none: it prepares the next step
  std::string kernel;
  const char* reason = nullptr;  // why it and not a faster one, in words; null: there is none
  /// Empty: the op of the node records it, and what it touches are the node's values.
  std::function<void(const StepContext&, Launcher&)> emit;
  std::vector<std::uint32_t> reads, writes;              // values
  std::vector<std::uint32_t> extra_reads, extra_writes;  // slots of Schedule::extras
  std::vector<std::uint32_t> extra_uses;                 // slots that it may touch: what it launches says so itself
};

struct Schedule {
  std::vector<Step> steps;
  std::vector<sdk::Alone> alone;            // nodes that no rule took, and why
  std::vector<std::uint64_t> extras;        // bytes of each slot
  std::vector<std::uint64_t> node_scratch;  // of each node that a step leaves to its op
  sdk::ScratchLayout layout;

  /// A further step, which computes these nodes.
  Step& add(std::vector<std::uint32_t> nodes, const char* kernel);
  /// Fills node_scratch and layout.
  void place(const sdk::ResolvedGraph& graph);
};

/// One step a node, as an option asks.
Schedule general_schedule(const sdk::ResolvedGraph& graph);

/// Products of quantised weights take int8 activations, which norms and SwiGLU make, and add residuals; attention keeps its sums in registers.
/// In the tier of matrices many rows take activations of f16. Nodes that no rule takes are steps of their own between these.
Schedule fused_schedule(const sdk::ResolvedGraph& graph, const CardFacts& card, Tier tier);

}  // namespace quern::vulkan
