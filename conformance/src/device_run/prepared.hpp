// A compiled graph with its instance, bindings and scratch, ready to run.
#pragma once

#include "device_run/device_memory.hpp"
#include "quern/quern_plan.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace quern::conformance {

/// How a graph is compiled and instanced; the defaults are a host's.
struct PlanOptions {
  bool fusion = true;               // one kernel may compute several nodes
  std::string force_kernel;         // a kernel or a family; empty: free
  std::vector<quern_bound> bounds;  // of the instance; symbols without one have their largest value
};

inline PlanOptions plan_forced(std::string kernel) { return {true, std::move(kernel), {}}; }

/// What plan_info says of a plan; empty where the plugin has no plan_info.
struct PlanFacts {
  std::vector<std::string> kernels;  // one a step
  std::uint32_t determinism = QUERN_DETERMINISM_FREE;
  std::uint64_t numerics_key = 0;
  bool told = false;
};

struct SupportAnswer {
  std::uint32_t verdict = QUERN_ANSWER_NO;
  std::string text;                      // of a "no"
  bool needs_other_than_values = false;  // YES_IF with a requirement that is not CONST_VALUES
};
/// Asks about each node. Throws AbiFailure where the call itself fails.
std::vector<SupportAnswer> support_of_nodes(const loader::Device& device, const quern_graph* graph);
/// The same for node 0 alone.
SupportAnswer support_of(const loader::Device& device, const quern_graph* graph);

class Prepared {
 public:
  /// Compiles, makes an instance, binds each value id's region. Throws AbiFailure. The regions outlive this.
  Prepared(const loader::Device& device, Queue& queue, const quern_graph* graph, const std::map<std::uint32_t, Region*>& bindings,
           const PlanOptions& options = {});
  ~Prepared();
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  /// Only whether it compiles; the plan is destroyed.
  static quern_status try_compile(const loader::Device& device, const quern_graph* graph, const PlanOptions& options = {});
  /// What the plan of `graph` would be; nothing if it is refused.
  static std::optional<PlanFacts> plan_of(const loader::Device& device, const quern_graph* graph, const PlanOptions& options);

  /// Why compile refuses `graph`; empty if it does not.
  static std::string refusal(const loader::Device& device, const quern_graph* graph, const PlanOptions& options);

  const PlanFacts& facts() const noexcept { return facts_; }
  const std::string& kernels() const noexcept { return kernels_; }  // of facts(), '+' between
  quern_plan* plan() const noexcept { return plan_; }
  quern_instance* instance() const noexcept { return instance_; }
  std::uint64_t scratch_bytes() const noexcept { return scratch_->bytes(); }
  void poison_scratch(std::byte value);
  /// As it is behind the last run.
  Contents scratch() { return Contents(*scratch_); }
  Queue& queue() noexcept { return queue_; }
  /// Submits once and waits. Throws AbiFailure if nothing was enqueued or the wait failed; how the run ended is returned.
  quern_run_status run(double seconds, const std::vector<quern_patch>& patches = {}, const std::vector<quern_bound>& bounds = {});

 private:
  void bind(const std::map<std::uint32_t, Region*>& bindings, const std::vector<quern_bound>& bounds);
  void release() noexcept;

  const loader::Device& device_;
  Queue& queue_;
  quern_plan* plan_ = nullptr;
  quern_instance* instance_ = nullptr;
  std::unique_ptr<Region> scratch_;
  PlanFacts facts_;
  std::string kernels_;
};

}  // namespace quern::conformance
