// A compiled graph and its instances.
//
//   Plan      the graph, its steps and where they keep internal values; immutable
//   Instance  what is bound, and command buffers of the steps: one for each set of extents, kept for the next run
#pragma once

#include "host_time.hpp"
#include "schedule.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

namespace quern::vulkan {

/// An opened device as the SDK's functions see it.
class Device : public Gpu {
 public:
  using Gpu::Gpu;
  const DeviceOffers& offers() const noexcept { return offers_; }
  /// What plans may use: what the device runs, the build holds and the host allows. A software device, to which matrices are as much
  /// arithmetic as any, and whose compiler takes 15 s for a kernel of them (Mesa 26.1), has them only where they are forced.
  Tier tier() const noexcept {
    const Tier most = facts().software() && !options().forced ? Tier::dot : options().most;
    return std::min({facts().tier(), built_tier(), most});
  }

 private:
  DeviceOffers offers_{facts()};
};

/// What the instances of a plan have in common, as their runs come one after another.
struct Common {
  std::uint64_t claimed = 0;  // of the exchange, by private_bytes() of the instances
  Memory
      exchange;  // what chains hand on, from the first prepare on: each run has numbers of its own, and the words of the last are still near
  std::map<std::vector<std::int64_t>, HostTime> times;  // of runs, by their extents
};

class Plan {
 public:
  Plan(Device& device, const quern_graph* host_graph, const quern_compile_options& options, std::vector<std::uint32_t>& refused);

  /// Of the instances that there are.
  std::shared_ptr<Common> common() const;

  sdk::ResolvedGraph graph;
  Schedule schedule;
  std::uint32_t determinism = QUERN_DETERMINISM_REPEATABLE, launches = 0;
  std::uint64_t numerics_key = 0;
  bool persistent = false;        // steps of one row become persistent dispatches
  bool counts_on_device = false;  // an extent is a number in device memory
  std::vector<quern_kernel_info> infos;
  sdk::ToldSchedules told;  // one schedule for every run

  mutable std::mutex common_lock;  // of it, and of Common::claimed

 private:
  mutable std::weak_ptr<Common> common_;
};

class Instance {
 public:
  Instance(const Plan& plan, Device& device);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  sdk::InstanceBounds& bounds() noexcept { return bounds_; }
  std::uint64_t scratch_bytes() const noexcept { return plan_.schedule.layout.bytes; }
  /// The parameters of its runs, where the processor can write them near the device; else they are host memory.
  std::uint64_t private_bytes();
  bool ready() const noexcept { return prepared_; }

  /// Makes pipelines and records the usual steps.
  void prepare(sdk::BoundPlaces places);
  // A run, as sdk/run_list.hpp wants it; only after bounds().check_run(). Its last part stays under way.
  std::uint32_t slot() const noexcept { return slot_; }
  bool start(const quern_run& run);
  void finish(const quern_run& run, quern_run_status& outcome);
  std::uint32_t op_of(std::uint32_t node) const noexcept { return plan_.graph.nodes[node].op; }
  /// A run was submitted: a cancel from now on is for it, though it may wait for another instance's.
  void begin() noexcept { cancelled_ = false; }
  void cancel() noexcept { cancelled_ = true; }
  const quern_counters& counters() const noexcept { return counters_; }

 private:
  /// The steps for one set of extents. A long list is cut, so that a run can be cancelled between the parts.
  struct Recorded {
    std::vector<std::int64_t> extents;
    std::vector<VkCommandBuffer> commands;
    Memory parameters;
    std::uint64_t used = 0;    // when
    HostTime* time = nullptr;  // of runs of these extents
  };
  class Context;
  void emit(const Step& step, const std::vector<std::int64_t>& extents, Launcher& launcher) const;
  Launcher dry(const std::vector<std::int64_t>& extents) const;
  std::vector<std::vector<std::int64_t>> usual_extents() const;
  /// How many sets of extents it keeps the steps of, each with so many bytes of parameters.
  std::int64_t slots(std::uint64_t parameters) const;
  Memory take_parameters(std::uint64_t bytes) const;
  /// The largest that usual runs need of parameters and of the exchange.
  struct Needs {
    std::uint64_t parameters = 0, exchange = 0;
    std::vector<PipelineKey> pipelines;
  };
  Needs needs() const;
  Recorded& recorded(const std::vector<std::int64_t>& extents);
  void record(Recorded& slot, const std::vector<std::int64_t>& extents);
  void drop_recorded() noexcept;
  void log_times() const;
  void take_exchange(std::uint64_t bytes);

  const Plan& plan_;
  Device& device_;
  const std::uint32_t slot_;
  sdk::InstanceBounds bounds_;
  sdk::BoundPlaces places_;
  std::deque<Recorded> recorded_;
  std::shared_ptr<Common> common_;
  std::uint64_t claimed_ = 0;  // of the exchange, by this instance
  std::uint64_t clock_ = 0;
  struct UnderWay {
    Recorded* steps = nullptr;
    std::uint64_t point = 0;  // of its last part
    HostTime::Run time;
  } under_way_;
  bool prepared_ = false;
  std::atomic<bool> cancelled_{false};
  quern_counters counters_;
};

}  // namespace quern::vulkan
