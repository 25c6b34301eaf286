// A compiled graph on one device: RAII over the plan, its instances, and the statuses of its calls.
//
// The first instance serves all runs. Others, the followers, are for runs that one submit starts behind it (run_ahead.hpp).
#pragma once

#include "abi_call.hpp"
#include "memory.hpp"

#include "quern/graph/graph.hpp"

#include <array>
#include <string>
#include <vector>

namespace quern::runtime {

/// A plugin's answer for one node, in words.
struct NodeAnswer {
  bool yes = false;
  std::string text;    // why not
  std::string kernel;  // what would run
};

/// Asks a device which nodes of a graph it computes. Requirements that this host cannot meet count as "no".
std::vector<NodeAnswer> ask_support(const loader::Device& device, const graph::Graph& graph);

/// One kernel of a plan, for reports.
struct KernelUse {
  std::string name;
  std::string reason;
  std::uint32_t nodes = 0;
  std::uint32_t first_node = 0;  // of the plan's graph
};

/// A node of a schedule that no rule of the plugin took, and why.
struct AloneNode {
  std::uint32_t node = 0;  // of the plan's graph
  bool complete = false;   // nothing is lost by it
  std::string rule, reason;
};

/// What runs of some numbers of rows do: quern_schedule_info.
struct ScheduleUse {
  std::uint32_t symbol = QUERN_NONE;  // index; QUERN_NONE: it serves every run
  std::uint32_t rows = QUERN_ROWS_ANY;
  std::int64_t least = 0, most = 0;
  std::vector<KernelUse> kernels;
  std::vector<AloneNode> alone;
};

struct SlotBinding {
  graph::ValueId value;
  quern_span span;
};

struct RunBound {
  graph::SymbolId symbol;  // as in Graph: index + 1
  std::int64_t upper;
};

class Plan {
 public:
  static constexpr std::uint32_t most_followers = 3;

  /// Compiles. Throws Error with the plugin's code and text.
  Plan(std::shared_ptr<loader::Device> device, const graph::Graph& graph, const std::string& force_kernel, std::uint32_t followers = 0,
       const std::vector<RunBound>& follower_bounds = {});
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// That all its instances can share, as their runs come one after another.
  std::uint64_t scratch_bytes() const noexcept { return scratch_bytes_; }
  /// Of all instances.
  std::uint64_t private_bytes() const noexcept { return private_bytes_; }
  std::uint32_t followers() const noexcept { return static_cast<std::uint32_t>(instances_.size()) - 1; }
  const std::vector<KernelUse>& kernels() const noexcept { return kernels_; }
  /// Empty where the plugin does not tell: one of an earlier ABI minor, say. Throws Error with the plugin's code and text.
  std::vector<ScheduleUse> schedules() const;

  /// Binds every slot of an instance, 0 the first; before its first run, while none of it is in flight.
  void prepare(DeviceQueue& queue, std::uint32_t instance, const std::vector<SlotBinding>& bindings, quern_span scratch);
  /// Hands over a run of the first instance within `bounds`, and one of so many followers behind it, in one submit. Allocates nothing.
  void submit(DeviceQueue& queue, const std::vector<RunBound>& bounds, std::uint32_t followers = 0);
  /// The same of one follower, from 0, alone.
  void submit_follower(DeviceQueue& queue, std::uint32_t follower);
  /// How the last runs of `count` instances ended, from `first` on; once the queue is done with them. Throws the first failure:
  /// Error(QUERN_CANCELLED) after cancel().
  void check(std::uint32_t first, std::uint32_t count) const;
  /// From any thread.
  void cancel() noexcept;
  /// Of all instances.
  quern_counters counters() const;

 private:
  void read_kernels();
  void make_instance(const std::vector<RunBound>& bounds);
  void submit_instances(DeviceQueue& queue, std::uint32_t first, std::uint32_t count);
  void destroy() noexcept;

  std::shared_ptr<loader::Device> device_;
  std::string graph_name_, running_;  // running_: what a submit is called for the user
  std::vector<std::string> node_names_;
  quern_plan* plan_ = nullptr;
  std::vector<quern_instance*> instances_;
  std::uint64_t scratch_bytes_ = 0, private_bytes_ = 0;
  std::vector<KernelUse> kernels_;
  std::vector<quern_bound> bounds_, follower_bounds_;  // reused by every run
  AbiError error_;                                     // of the last submit
  struct Statuses : Kept {
    std::array<quern_run_status, most_followers + 1> of_instance{};
  };
  std::unique_ptr<Statuses> statuses_ =
      std::make_unique<Statuses>();  // of each instance's last run; written until the queue is done with it
};

}  // namespace quern::runtime
