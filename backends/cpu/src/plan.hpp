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
#include "quern/sdk/bindings.hpp"
#include "quern/sdk/scratch.hpp"
#include "quern/sdk/told_schedules.hpp"

#include <atomic>
#include <vector>

namespace quern::cpu {

class Device;

constexpr std::uint64_t span_alignment = 64;

/// What runs as one: a node by its kernel, or neighbouring nodes by a fusion.
struct Step {
  std::uint32_t first = 0, count = 1;
  const Fusion* fusion = nullptr;
};

struct Plan {
  /// Chooses kernels and, where the policy fuses, steps. Throws Failure after filling `refused` where a node has no kernel.
  Plan(const quern_graph* graph, KernelPolicy policy, std::vector<std::uint32_t>& refused);
  /// Under the device's policy, and what the options force.
  Plan(const Device& device, const quern_graph* graph, const quern_compile_options& options, std::vector<std::uint32_t>& refused);

  KernelPolicy policy;
  Graph graph;
  std::vector<const Kernel*> kernels;    // one a node
  std::vector<Step> steps;               // all nodes, in order
  std::vector<char> memoryless;          // one a value; of roots only: no memory, because one fused step makes and reads it
  std::vector<quern_kernel_info> infos;  // one a step
  sdk::ToldSchedules told;               // one schedule for every run
  std::uint32_t determinism = QUERN_DETERMINISM_INVARIANT;
  std::uint32_t launches = 0;
  std::uint64_t numerics_key = 0;
  bool uses_openblas = false;
};

class Instance {
 public:
  Instance(const Plan& plan, const Device& device);

  sdk::InstanceBounds& bounds() noexcept { return bounds_; }
  /// Internal values are laid out when this is first asked, at the bounds that hold then.
  std::uint64_t scratch_bytes();
  std::uint64_t private_bytes() const noexcept { return 0; }
  bool ready() const noexcept { return bound_; }
  /// Takes over places that bounds() checked, instead of all earlier ones.
  void prepare(sdk::BoundPlaces places) noexcept;

  void begin() noexcept { cancelled_.store(0, std::memory_order_relaxed); }
  std::uint32_t slot() const noexcept { return 0; }  // no run is under way when start() has returned
  /// Applies patches, then runs the nodes in order, all of them: false.
  bool start(const quern_run& run);
  void finish(const quern_run& run, quern_run_status& outcome) const noexcept;
  std::uint32_t op_of(std::uint32_t node) const noexcept { return plan_.graph.nodes[node].op; }
  void cancel() noexcept { cancelled_.store(1, std::memory_order_relaxed); }

  quern_counters counters() const noexcept;

 private:
  std::uint64_t kernel_scratch(const Step& step) const;
  void refresh_views() noexcept;
  bool predicate_is_zero(const Node& node) const noexcept;
  void run_nodes() noexcept;

  const Plan& plan_;
  ThreadPool& pool_;
  sdk::InstanceBounds bounds_;
  sdk::ScratchLayout layout_;
  bool laid_out_ = false, bound_ = false;
  std::vector<std::int64_t> extents_;            // what the views hold now
  std::vector<Tensor> views_;                    // one a value
  std::vector<std::vector<Tensor>> call_views_;  // one a node: inputs, then outputs
  std::vector<Call> calls_;                      // one a node
  std::byte* scratch_ = nullptr;
  std::atomic<std::uint32_t> cancelled_{0};
  std::atomic<std::uint64_t> faults_{0};
  quern_status code_ = QUERN_OK;  // of the last run
  std::uint32_t failed_ = QUERN_NONE;
  std::uint64_t runs_ = 0, patch_bytes_ = 0;
};

}  // namespace quern::cpu
