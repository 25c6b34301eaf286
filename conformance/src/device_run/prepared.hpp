// A compiled graph with its instance, bindings and scratch, ready to run.
#pragma once

#include "device_run/device_memory.hpp"
#include "quern/quern_plan.h"

#include <map>
#include <memory>
#include <string>

namespace quern::conformance {

struct SupportAnswer {
  std::uint32_t verdict = QUERN_ANSWER_NO;
  std::string text;                      // of a "no"
  bool needs_other_than_values = false;  // YES_IF with a requirement that is not CONST_VALUES
};
/// Asks about node 0. Throws AbiFailure where the call itself fails.
SupportAnswer support_of(const loader::Device& device, const quern_graph* graph);

class Prepared {
 public:
  /// Compiles, makes an instance, binds each value id's region. Throws AbiFailure. The regions outlive this.
  Prepared(const loader::Device& device, Queue& queue, const quern_graph* graph, const std::map<std::uint32_t, Region*>& bindings);
  ~Prepared();
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  /// Only whether it compiles; the plan is destroyed.
  static quern_status try_compile(const loader::Device& device, const quern_graph* graph);

  const std::string& kernels() const noexcept { return kernels_; }
  quern_plan* plan() const noexcept { return plan_; }
  quern_instance* instance() const noexcept { return instance_; }
  void poison_scratch(std::byte value);
  std::string scratch_damage();
  /// Submits once and waits. Throws AbiFailure if nothing was enqueued or the wait failed; how the run ended is returned.
  quern_run_status run(double seconds);

 private:
  void bind(const std::map<std::uint32_t, Region*>& bindings);
  void release() noexcept;

  const loader::Device& device_;
  Queue& queue_;
  quern_plan* plan_ = nullptr;
  quern_instance* instance_ = nullptr;
  std::unique_ptr<Region> scratch_;
  std::string kernels_;
};

}  // namespace quern::conformance
