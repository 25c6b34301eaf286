// The handles of the wrapper: each holds that of the plugin underneath, in `under`.
#pragma once

#include "base.hpp"
#include "mutation.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <string>

/// Memory of the wrapper's own, aligned as spans are.
class PrivateMemory {
 public:
  static constexpr std::uint64_t alignment = 4096;
  explicit PrivateMemory(std::uint64_t bytes);
  std::byte* data() noexcept { return data_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::unique_ptr<std::byte[]> storage_;
  std::byte* data_;
  std::uint64_t bytes_;
};

struct quern_plugin {
  const quern_host* host = nullptr;
  std::shared_ptr<const quern::mutant::Base> base;
  quern::mutant::Mutation mutation;
  quern_plugin* under = nullptr;
  std::uint64_t memory;  // of the simulated device, in bytes: its option `memory`, else what the machine has
  std::atomic<bool> lost{false};
  std::atomic<std::uint32_t> opens{0};
  quern::sdk::Process process;
  std::mutex lock;
  std::vector<std::byte> answer;  // previous_answer: of the instance that was destroyed last

  const quern_plugin_api& api() const noexcept { return base->api(); }
  quern::mutant::Behaviour behaviour() const noexcept { return mutation.behaviour; }
};

struct quern_device {
  quern_plugin* plugin = nullptr;
  quern_device* under = nullptr;
  std::atomic<std::uint64_t> support_calls{0}, submits{0};
  std::mutex lock;
  std::map<std::string, std::vector<quern_attribute>> first_attributes;  // plan_cache_without_attributes
  std::vector<quern_run> late;                                           // late_run
  std::atomic<std::uint64_t> buffers{0}, used{0}, limit{UINT64_MAX};     // of the simulated device
  std::atomic<std::uint64_t> used_at_most{0};                            // used_never_falls
  struct {
    std::byte* to;
    const void* from;
    std::uint64_t bytes;
  } late_upload{};                       // upload_deferred
  std::atomic<std::uint32_t> plans{0};   // alive
  std::atomic<std::uint64_t> faults{0};  // sticky_device_faults
};

/// Memory of the simulated device (plugin_device.cpp); the plugin without buffers has none.
struct quern_buffer {
  quern_buffer(quern_device& its, std::uint64_t size, bool twice) : device(its), memory(size), other(twice ? size : 0) {}
  quern_device& device;
  PrivateMemory memory;
  PrivateMemory other;  // other_memory
};

struct quern_plan {
  quern_device* device = nullptr;
  quern_plan* under = nullptr;                    // null: the null plugin's
  std::optional<quern::mutant::GraphCopy> graph;  // as the host gave it; nothing where it was malformed
  quern_instance* prepared_last = nullptr;        // shared_bindings
  bool fused = false;                             // several nodes, compiled with fusion
  std::uint32_t number = 0;                       // of the plans that were alive when it was made, itself included
  mutable std::vector<quern_schedule_info> told;  // what plan_info says in place of the plugin's
  mutable quern_alone_info told_alone{};
  bool triggers() const noexcept;  // crash, hang, ...: only on values of 17 rows, so that other cases pass
};

struct quern_instance {
  quern_plan* plan = nullptr;
  quern_instance* under = nullptr;
  bool prepared = false;
  std::uint64_t runs = 0, faults = 0;
  struct Bound {                                    // what the last prepare gave
    std::vector<std::byte*> memory;                 // by value id: the host's memory, or null
    std::map<std::uint32_t, PrivateMemory> copies;  // by value id
    std::byte* scratch = nullptr;
    std::uint64_t scratch_bytes = 0;
  } bound;
  std::vector<std::byte> answer;  // previous_answer: of its first run

  /// Where a value lies for the host; through aliases. Null: in scratch, or unknown.
  std::byte* host_memory(std::uint32_t value) const noexcept;
};

namespace quern::mutant {

/// Extra scratch that depends_on_scratch asks for.
inline constexpr std::uint64_t watched_scratch = 64;

// sessions.cpp: what goes wrong in long and full sessions only. None of it takes memory, as submit must not.
bool is_of_sessions(Behaviour behaviour) noexcept;
/// One run of a list of `count`. Hands on the answer of the plugin underneath.
quern_status run_in_session(quern_device& device, quern_queue* queue, quern_run run, std::size_t index, std::size_t count,
                            quern_error* error);
/// What a plan says of itself. `kernels`: room for the list that it is given.
void tell_of_plan(const quern_plan& plan, quern_plan_info& info);
/// The same of its schedules.
void tell_of_schedules(const quern_plan& plan, quern_plan_info& info);
/// Throws sdk::Failure where no more devices can be opened.
void count_open(quern_plugin& plugin);

// run.cpp; each hands on the answer of the plugin underneath, or throws sdk::Failure.
quern_status prepare_entries(quern_device& device, quern_queue* queue, const quern_array& entries, const quern_sync* sync,
                             quern_error* error);
quern_status submit_runs(quern_device& device, quern_queue* queue, const quern_array& runs, quern_error* error);
/// throws: what submit lets out of the C boundary, before anything guards it.
void throw_across(quern_device* device, const quern_array* runs);
/// What late_run still owes.
void finish_late_runs(quern_device& device);

}  // namespace quern::mutant
