// A graph that runs on one or several devices: placed, cut, compiled, bound, and the copies between its parts.
//
// After prepare() a run allocates nothing and copies only what crosses a cut.
#pragma once

#include "placement.hpp"
#include "run_ahead.hpp"
#include "trace.hpp"
#include "weight_set.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace quern::runtime {

/// A value that is made on one device and read on another.
struct Cut {
  std::string value;
  std::string from, to;
  std::string reason;               // why the reader or the maker is not on the first device
  std::uint64_t bytes_per_row = 0;  // of the token dimension; 0 if the value has none
  std::uint64_t bytes = 0;          // of a value without token dimension
};

/// Where a node runs.
struct NodePlace {
  std::string name, op;
  std::uint32_t device = 0;
};

/// A kernel of a part: the node that it begins with, and how many it computes.
struct KernelPlace {
  std::string kernel, node;
  std::uint32_t device = 0, nodes = 0;
};

struct DeviceShare {
  std::string device;
  std::uint32_t nodes = 0;
  std::vector<KernelUse> kernels;
};

/// Bytes that prepare() will allocate, without constants and what another program shares.
struct ProgramNeeds {
  std::uint64_t state = 0, io = 0, scratch = 0;
  std::uint64_t plans = 0;  // what the plans allocate for themselves, each its own
  std::uint64_t total() const noexcept { return state + io + scratch + plans; }
};

class Program {
 public:
  /// Places, plans the weights of each device, and compiles. `devices` in order of preference. Runs can have followers where one device that
  /// is not the host's processors computes all of the graph.
  Program(graph::Graph graph, std::vector<std::shared_ptr<MemoryBudget>> devices, Fallback fallback, const std::string& force_kernel,
          const Assignment& assignment = {}, RunAhead ahead = {});
  ~Program();

  const graph::Graph& graph() const noexcept { return graph_; }
  /// Devices (indices) whose parts read a value: where a constant has to be.
  const std::vector<std::uint32_t>& readers(graph::ValueId value) const { return readers_.at(value); }
  const std::vector<std::shared_ptr<MemoryBudget>>& devices() const noexcept { return devices_; }

  /// How a device packs a constant; null: it reads canonical bytes. Lives as long as the program.
  const PackedWeight* packed(graph::ValueId value, std::uint32_t device) const;
  /// Packs a constant's canonical bytes into `destination`, which has packed()->bytes. See WeightSet::pack.
  void pack(graph::ValueId value, std::uint32_t device, std::span<const std::byte> source, quern_span destination, PackingRoom& room) const;

  /// Binds a constant on one device, packed if packed() says so. The memory must outlive the program.
  void bind_constant(graph::ValueId value, std::uint32_t device, quern_span span);
  /// Lets a state value of this program be the memory of another's value (the rope table, shared KV). Both then use the owner's queue of that
  /// device, so what one wrote is there for the other. Before prepare(), and behind the owner's.
  void share(graph::ValueId value, Program& owner, graph::ValueId owners_value);
  /// share() will follow: needs() leaves the value out from here on.
  void expect_shared(graph::ValueId value) { shared_.insert(value); }
  /// Allocates state, inputs, outputs, what crosses cuts, and scratch; binds all. State starts as zeros.
  void prepare();

  /// Of all devices, or of one.
  ProgramNeeds needs() const;
  ProgramNeeds needs(std::uint32_t device) const;

  void write(graph::ValueId value, std::uint64_t offset, std::span<const std::byte> bytes);
  void read(graph::ValueId value, std::uint64_t offset, std::span<std::byte> bytes) const;
  /// Copies within a value, wherever this program has it; the ranges lie apart. Runs, reads and writes behind it find the copy.
  void copy_within(graph::ValueId value, std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
  /// Host address of a value, or null if no host-memory device holds it.
  std::byte* host(graph::ValueId value) const;

  /// How many runs may follow one without the host.
  std::uint32_t followers() const noexcept { return ahead_.followers; }
  /// Whether a follower may be started behind the last one, and the first of them be waited for while others are in flight.
  bool followers_go_on() const noexcept { return ahead_.followers > 0 && !queue_of(parts_[0]).synchronous(); }
  /// As write, of what a follower (from 0) has for itself.
  void write_follower(std::uint32_t follower, graph::ValueId value, std::span<const std::byte> bytes);

  /// What to read of a value behind a run.
  struct Result {
    graph::ValueId value;
    std::span<std::byte> to;
  };
  using Results = std::vector<Result>;
  /// Runs the first instance within `bounds` and waits for it and its results. So many followers go behind it, each with its results, which
  /// are there when wait_for() returned. Throws what a device throws; nothing is in flight then, and with followers all is
  /// given up. Error(QUERN_CANCELLED) after cancel().
  void run(const std::vector<RunBound>& bounds, const Results& results = {}, std::span<const Results> followers = {});
  /// Starts one follower more, behind those in flight; the same one has been waited for.
  void start_follower(std::uint32_t follower, const Results& results);
  void wait_for(std::uint32_t follower);
  /// What is in flight ends for nobody: its results go nowhere. The next run, clear_cancel() and the destructor wait for it, so that it
  /// keeps what it names until its end.
  void give_up() noexcept;
  /// From any thread: ends the run in flight, and those to come until clear_cancel().
  void cancel() noexcept;
  /// Waits for what was given up first: a cancelled run is given less time than another.
  void clear_cancel() noexcept;

  /// Runs from here on are recorded there; null: none is.
  void record(Trace* trace) noexcept { trace_ = trace; }
  /// All nodes in the order in which they run, and the kernels of a step of one row.
  std::vector<NodePlace> node_places() const;
  std::vector<KernelPlace> kernel_places() const;

  /// A part that a device computes: its graph, and what its plan says of its schedules.
  struct ToldPart {
    std::uint32_t device;
    const graph::Graph* graph;
    std::vector<ScheduleUse> schedules;
  };
  std::vector<ToldPart> told_parts() const;

  const std::vector<Cut>& cuts() const noexcept { return cuts_; }
  std::vector<DeviceShare> shares() const;
  std::uint64_t bytes_moved() const noexcept { return bytes_moved_; }
  std::uint64_t state_bytes() const noexcept { return state_bytes_; }
  /// What plans keep for themselves included.
  std::uint64_t scratch_bytes() const noexcept { return scratch_bytes_; }
  std::uint64_t io_bytes() const noexcept { return io_bytes_; }

 private:
  struct Part {
    std::uint32_t device;
    std::vector<graph::ValueId> whole;  // ids in graph_ of the part's values
    graph::Graph graph;
    std::unique_ptr<Plan> plan;
    std::vector<std::size_t> copies_in;  // indices into transfers_
    std::uint32_t nodes;
    bool in_flight = false;  // since it was checked last
  };
  struct Transfer {
    graph::ValueId value;
    std::uint32_t from, to;
  };
  using Place = std::pair<graph::ValueId, std::uint32_t>;  // value, device

  void expect_end(bool cancelled) noexcept;
  void drain() noexcept;
  void settle() noexcept;
  graph::ValueId root(graph::ValueId value) const;
  DeviceQueue& queue_of(const Part& part) const { return *queues_[part.device]; }
  void copy(const Transfer& transfer, std::uint64_t bytes);
  template <typename Submit>
  void submit(Part& part, const Submit& submit);
  void finish(std::uint32_t device);
  std::uint32_t holder(graph::ValueId value) const;
  void fetch(graph::ValueId value, std::uint64_t offset, std::span<std::byte> to) const;
  void fetch_follower(std::uint32_t follower, const Results& results);
  struct FollowerPlace {
    Memory& memory;
    std::uint64_t offset;
  };
  FollowerPlace follower_place(std::uint32_t follower, graph::ValueId value);
  std::uint64_t follower_stride() const;
  std::uint64_t follower_offset(graph::ValueId value) const;
  void prepare_followers(std::vector<SlotBinding> bindings, quern_span scratch);
  std::uint64_t bound_bytes(graph::ValueId value, const std::vector<RunBound>& bounds) const;
  void plan_weights();
  void find_transfers(const Placement& placement);
  const quern_span& span_of(graph::ValueId value, std::uint32_t device) const;

  graph::Graph graph_;
  std::vector<std::shared_ptr<MemoryBudget>> devices_;
  std::vector<Part> parts_;
  std::vector<Transfer> transfers_;
  std::vector<Cut> cuts_;
  std::vector<std::vector<std::uint32_t>> readers_;  // devices, by value of graph_
  std::vector<WeightSet> weight_sets_;               // by device
  std::map<Place, std::size_t> packed_;              // index into the device's set
  std::set<graph::ValueId> shared_;                  // that another program allocates
  std::map<Place, quern_span> spans_;
  std::map<Place, Memory*> owners_;  // for read and write of what this program owns
  std::vector<std::unique_ptr<Memory>> memory_;
  RunAhead ahead_;
  std::vector<Memory> follower_memory_;         // of each, its own values one behind the other
  std::vector<std::uint64_t> follower_points_;  // of each, when its last run and results are there
  std::vector<std::byte> staging_;
  Trace* trace_ = nullptr;
  std::atomic<bool> cancelled_{false};
  bool given_up_ = false;  // something that may be in flight still
  std::uint64_t bytes_moved_ = 0;
  std::uint64_t state_bytes_ = 0, scratch_bytes_ = 0, io_bytes_ = 0;
  std::vector<std::shared_ptr<DeviceQueue>> queues_;  // by device
};

}  // namespace quern::runtime
