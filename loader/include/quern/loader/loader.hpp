// Finds plugin libraries, proves them, ranks their devices, opens them, and says why for each.
//
// Nothing of a plugin runs in this process before a helper process has loaded and probed it (unless
// Settings::probe_in_process); the library enters this process in open(). Libraries are never unloaded.
// The stages, codes and ranking rules are in loader/README.md.
#pragma once

#include "quern/loader/plugin_call.hpp"
#include "quern/loader/report.hpp"
#include "quern/loader/settings.hpp"
#include "quern/quern_plugin_api.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace quern::loader {

/// A device that may be opened.
struct Candidate {
  std::string plugin_id;
  std::string path;         // of the plugin's file, or "registered:<id>"
  std::uint32_t index = 0;  // among all devices of the plugin
  std::string label;        // "cuda:0": what Settings::device takes
  DeviceInfo device;
  double bandwidth = 0;  // bytes/s, 0 not measured
};

/// What a plugin took from the host's allocator, in total or under one tag.
struct AllocationStatistics {
  std::uint64_t live_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t allocations = 0;  // calls that gave memory
  std::uint64_t failures = 0;     // calls that did not
};

/// One plugin handle, with the host table that it was made with. Any thread.
class Plugin {
 public:
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const quern_plugin_api& api() const noexcept;  // functions that the plugin does not have are null
  quern_plugin* handle() const noexcept;
  const std::string& id() const noexcept;
  const std::string& version() const noexcept;
  const std::string& build() const noexcept;  // for cache keys
  const std::string& path() const noexcept;
  std::uint32_t abi_minor() const noexcept;  // negotiated

  AllocationStatistics allocations() const;
  std::map<std::string, AllocationStatistics> allocations_by_tag() const;

  struct Parts;  // private to the loader
  explicit Plugin(std::unique_ptr<Parts> parts);

 private:
  friend class Device;
  friend class Loader;
  std::unique_ptr<Parts> parts_;
};

/// One open device; holds its plugin. Closed when the last owner goes: everything made from it must be gone
/// by then. After fork the child's copies close nothing.
class Device {
 public:
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  quern_device* handle() const noexcept { return handle_; }
  const DeviceInfo& info() const noexcept { return info_; }
  const std::string& label() const noexcept { return label_; }
  std::uint32_t index() const noexcept { return index_; }
  const std::shared_ptr<const Plugin>& plugin() const noexcept { return plugin_; }
  const quern_plugin_api& api() const noexcept { return plugin_->api(); }

  /// The call of a function that is made again and again until it has an answer is one call on record.
  template <auto function>
  OpenCall on_record() const noexcept {
    return OpenCall(*target_, call_name<function>);
  }

  /// It does not end what it was given. From then on nothing of it is closed or freed, since it may still write there; `self` is this device.
  void lose(std::shared_ptr<const Device> self) const noexcept;
  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }

  /// Calls a function of the plugin's table, on record: call<&quern_plugin_api::submit>(handle(), ...). An exception that comes out of it becomes
  /// QUERN_INTERNAL with its words in the last argument, a quern_error; where that is null, it is logged.
  template <auto function, typename... Arguments>
  quern_status call(Arguments... arguments) const noexcept {
    static_assert(call_name<function> != nullptr, "plugin_calls.def does not have this function");
    std::string thrown;
    const quern_status status = guarded(
        *target_, call_name<function>, [&] { return (api().*function)(arguments...); }, thrown);
    if (!thrown.empty()) report_thrown(call_name<function>, thrown, error_of(arguments...));
    return status;
  }

 private:
  friend class Loader;
  void report_thrown(const char* name, const std::string& thrown, quern_error* error) const noexcept;
  void log_error(const std::string& text) const noexcept;
  Device(std::shared_ptr<const Plugin> plugin, quern_device* handle, DeviceInfo info, std::string label, std::uint32_t index);

  std::shared_ptr<const Plugin> plugin_;
  quern_device* handle_;
  DeviceInfo info_;
  std::string label_;
  std::uint32_t index_;
  const CallTarget* target_;
  long process_;
  mutable std::atomic<bool> lost_{false};
  mutable std::shared_ptr<const Device> self_;  // of a lost one: it stays
  mutable const Device* next_lost_ = nullptr;
};

/// One search, and the devices that came of it. Devices and plugins outlive it. Any thread.
class Loader {
 public:
  /// Searches, inspects, probes and ranks. A plugin's fault never throws: it is in the report. Takes
  /// milliseconds when the cache answers, else as long as the slowest probe. Throws
  /// Error(QUERN_INVALID_ARGUMENT) for a device name or a setting that cannot be read.
  explicit Loader(Settings settings);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Settings& settings() const noexcept;

  /// A copy: open() adds to the report.
  Report report() const;

  /// Best first; under a demand only what was demanded, in its order. May be empty. open() may find that a kept probe result was wrong and
  /// choose anew: this is then another list, and the former stays valid as long as the loader.
  const std::vector<Candidate>& candidates() const;

  /// The same, never empty. Throws Error(QUERN_BACKEND_UNAVAILABLE) with reason and remedy if the demand
  /// (Settings::backends, device, force_cpu) cannot be met, or if nothing on this machine can be used.
  const std::vector<Candidate>& require() const;

  /// Loads the plugin into this process (once a loader) and opens the device. Where that fails, or the device describes itself otherwise than
  /// a kept probe result did, the result is thrown away, the plugin is probed anew and the device opened once more. Throws
  /// Error(QUERN_BACKEND_UNAVAILABLE) with the reason; no other device is tried.
  std::shared_ptr<Device> open(const Candidate& candidate);

  /// The same by a plugin handle of its own, which has these options besides those of the settings, and without another probe: a plugin that was
  /// probed is taken with other options. Throws Error(QUERN_BACKEND_UNAVAILABLE) with the reason.
  std::shared_ptr<Device> open(const Candidate& candidate, const std::map<std::string, std::string>& options);

  /// Opens the best candidate that opens: require(), then open() in order. A failure is logged as a warning
  /// and reported before the next is tried. Throws as both do, for the first failure.
  std::shared_ptr<Device> open_best();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The directory that is searched when nothing else is said; empty if it cannot be told.
std::string default_plugin_directory();

/// The hash of the untagged plugin headers that this loader was built from; 0 for a tagged build.
std::uint64_t header_hash();

}  // namespace quern::loader
