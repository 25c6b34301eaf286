// A compiled graph, and an instance of it bound to memory.
//
//   Plan      checked graph, the kernel of each node, and the steps that run them; immutable, so instances of one plan run at once
//   Instance  upper bounds, the layout of scratch, addresses after prepare(), the views of each call; one thread at a time
// A run allocates nothing: views and argument lists are made by the constructor and prepare(), and only their dims and addresses change.
#pragma once

#include "fusion/fusion.hpp"
#include "graph.hpp"
#include "selection.hpp"

#include "quern/quern_plan.h"
#include "quern/sdk/told_schedules.hpp"

#include <atomic>
#include <deque>
#include <vector>

namespace quern::cpu {

constexpr std::uint64_t span_alignment = 64;

/// What runs as one: a node by its kernel, or neighbouring nodes by a fusion.
struct Step {
  std::uint32_t first = 0, count = 1;
  const Fusion* fusion = nullptr;
};

struct Plan {
  Graph graph;
  std::vector<const Kernel*> kernels;    // one a node
  std::vector<std::string> reasons;      // one a node
  std::vector<Step> steps;               // all nodes, in order
  std::vector<char> memoryless;          // one a value; of roots only: no memory, because one fused step makes and reads it
  std::vector<quern_kernel_info> infos;  // one a step
  sdk::ToldSchedules told;               // one schedule for every run
  KernelPolicy policy;
  std::uint32_t determinism = QUERN_DETERMINISM_INVARIANT;
  std::uint64_t numerics_key = 0;
  bool uses_openblas = false;
};

/// Chooses kernels and, where the policy fuses, steps. Throws Error(UNSUPPORTED) after filling `refused` where a node has none.
Plan compile_plan(Graph graph, const KernelPolicy& policy, std::vector<std::uint32_t>& refused);

/// Where internal values lie in scratch.
struct ScratchLayout {
  std::vector<std::uint64_t> offsets;  // one a value; of roots only
  std::uint64_t kernel_offset = 0;     // scratch of the kernel that runs
  std::uint64_t kernel_bytes = 0;
  std::uint64_t bytes = 0;
};

/// `dims_at` holds the view of each value at the instance's bounds. Values whose lifetimes do not meet share bytes.
ScratchLayout layout_scratch(const Plan& plan, const std::vector<TensorView>& at_bounds);

/// Where the values of an instance and its scratch lie: checked, and not yet taken over.
struct Binding {
  std::vector<std::byte*> addresses;  // one a value; null where it has no memory
  std::byte* scratch = nullptr;
};

class Instance {
 public:
  explicit Instance(const Plan& plan);

  const Plan& plan() const noexcept { return plan_; }

  /// Sets bounds and computes the layout. Throws Error(INVALID_ARGUMENT).
  void set_bounds(const quern_array& bounds);
  std::uint64_t scratch_bytes() const noexcept { return layout_.bytes; }

  /// Throws Error(INVALID_ARGUMENT or UNSUPPORTED) naming the value.
  Binding check_binding(const quern_array& bindings, const quern_span& scratch) const;
  /// Takes over what check_binding() of this instance returned, in place of all earlier bindings.
  void bind(const Binding& binding) noexcept;

  /// Checks a run without changing anything. Throws Error(INVALID_ARGUMENT).
  void check_run(const quern_run& run) const;
  /// Applies patches, then runs the nodes in order. How it ended goes to run.status. Only after check_run.
  void execute(const quern_run& run, ThreadPool& pool) noexcept;
  void cancel() noexcept { cancelled_.store(1, std::memory_order_relaxed); }

  quern_counters counters() const noexcept;

 private:
  bool read_extents(const quern_run& run) noexcept;
  void refresh_views() noexcept;
  bool predicate_is_zero(const Node& node) const noexcept;
  quern_status run_nodes(ThreadPool& pool, std::uint32_t& failed) noexcept;

  const Plan& plan_;
  ScratchLayout layout_;
  std::vector<std::int64_t> bounds_;                 // a symbol's upper bound in this instance
  std::vector<std::int64_t> extents_;                // what the views hold now
  std::vector<std::int64_t> wanted_;                 // of the run that starts
  std::vector<TensorView> views_;                    // one a value
  std::vector<std::vector<TensorView>> call_views_;  // one a node: inputs, then outputs
  std::vector<OpCall> calls_;                        // one a node
  std::byte* scratch_ = nullptr;
  bool bound_ = false;
  std::atomic<std::uint32_t> cancelled_{0};
  std::atomic<std::uint64_t> faults_{0};
  std::uint64_t runs_ = 0, patch_bytes_ = 0;
};

}  // namespace quern::cpu
