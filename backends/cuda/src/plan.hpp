// A compiled graph and its instances.
//
//   Plan      the graph, its schedules and what is told of its kernels; immutable
//   Instance  upper bounds, memory after prepare(), captured graphs; one thread at a time
#pragma once

#include "schedule.hpp"

#include <atomic>

namespace quern::cuda {

class Instance;

struct Plan {
  Graph graph;
  std::deque<Schedule> schedules;  // the general one first
  std::vector<quern_kernel_info> infos;
  sdk::ToldSchedules told;
  bool capture = true;
  std::vector<bool> written;          // one a value: bound memory that a run may change
  std::vector<Orders::Index> orders;  // that schedules rely on
  std::uint64_t numerics_key = 0;
  std::uint32_t determinism = QUERN_DETERMINISM_REPEATABLE;  // INVARIANT where a node asks for that
  /// The instance that the driver refused a graph: none of the plan's makes or starts more, until that one is prepared anew. Under Gpu::order().
  mutable const Instance* without_graphs = nullptr;

  explicit Plan(const quern_graph* host_graph) : graph(host_graph) {}
  /// Makes schedules of the graph that was given. Throws Failure(UNSUPPORTED) after filling `refused`.
  void compile(const quern_graph* given, bool fuse, const CardFacts& card, std::vector<std::uint32_t>& refused);
  /// Opens cuBLASLt where a schedule takes it, and takes its version into numerics_key.
  void add_library(Gpu& gpu);
  std::uint64_t scratch_bytes() const;
  /// Whether a step of any schedule has this name.
  bool has_kernel(std::string_view name) const noexcept;
  /// `ordered`: the instance has the orders that schedules rely on.
  const Schedule& schedule_for(const std::vector<std::int64_t>& extents, bool ordered = true) const;

 private:
  struct Unfused;
  void tell(const Unfused& unfused, std::string_view reason);
};

class Instance {
 public:
  Instance(const Plan& plan, Gpu& gpu);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  sdk::InstanceBounds& bounds() noexcept { return limits_; }
  std::uint64_t scratch_bytes() const { return plan_.scratch_bytes(); }
  std::uint64_t private_bytes() const noexcept { return counter_bytes + Orders::bytes(plan_.orders); }
  bool ready() const noexcept { return prepared_; }
  /// Binds and captures, for runs on that lane.
  void prepare(sdk::BoundPlaces places, Lane& lane);
  /// A run was submitted: a cancel from now on is for it, though it may wait for points.
  void begin() noexcept { cancelled_ = false; }
  // A run, as sdk/work_queue.hpp wants it; only after bounds().check_run().
  void start(const quern_run& run, Lane& lane);
  void finish(const quern_run& run, quern_run_status& outcome);
  std::uint32_t op_of(std::uint32_t node) const noexcept { return plan_.graph.nodes[node].op; }
  void cancel() noexcept { cancelled_ = true; }
  const quern_counters& counters() const noexcept { return counters_; }

 private:
  class Context;
  struct Captured {
    std::vector<std::int64_t> extents;
    bool delivers = true;    // begins with the host's small writes; else there may be none
    std::uint64_t lane = 0;  // whose mailbox and memory it names
    GraphExec exec = nullptr;
  };
  const Schedule& schedule_for(const std::vector<std::int64_t>& extents) const { return plan_.schedule_for(extents, ordered_); }
  void read_orders(Lane& lane);
  void refresh(const std::vector<std::int64_t>& extents, const Schedule& schedule);
  enum class Emit { dry, captured, captured_without_writes, now };
  void check_cancel() const;
  std::uint32_t emit(const Schedule& schedule, Emit how, Lane& lane, std::uint32_t& step);
  void capture(Lane& lane);
  bool takes_graph(const std::vector<std::int64_t>& extents, const Schedule& schedule) const;
  void capture_step(const std::vector<std::int64_t>& extents, Lane& lane, bool delivers = true);
  GraphExec record_step(const std::vector<std::int64_t>& extents, Lane& lane, bool delivers);
  std::vector<Captured>::iterator captured(Lane& lane);
  bool launch_captured(std::vector<Captured>::iterator captured, Lane& lane);
  void go_without_graph(const Failure& failure);
  void drop_captured() noexcept;
  void forget_written() noexcept;
  void bring_in(const quern_run& run, Lane& lane);
  void launch(Lane& lane, std::uint32_t& step);
  void deliver_waiting(Lane& lane) noexcept;

  const Plan& plan_;
  Gpu& gpu_;
  Slot* const slot_;
  sdk::InstanceBounds limits_;
  const std::vector<std::int64_t>& bounds_;  // of limits_, as the extents of the run
  std::vector<std::int64_t>& extents_;
  std::vector<Tensor> tensors_;        // one a value, of this run
  std::vector<std::uint64_t> places_;  // of bound roots
  const Schedule* laid_out_ = nullptr;
  Address scratch_ = 0;
  DevicePointer counters_memory_ = 0;  // the inverses of orders behind them
  Orders orders_;
  bool ordered_ = true;
  std::vector<Captured> captured_;
  std::vector<std::int64_t> uncaptured_;  // extents of the last run without a graph
  std::vector<Mirrors::Mirror*> mirrors_;
  bool prepared_ = false;
  std::atomic<bool> cancelled_{false};
  quern_counters counters_;
};

}  // namespace quern::cuda
