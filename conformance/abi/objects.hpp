// Devices, plans, instances and prepared runs of ABI scripts: owners of raw handles, and calls that a script may spoil before they go
// out.
//
// Constructors throw AbiFailure where the plugin does not answer OK; what a script expects to be refused it calls itself.
#pragma once

#include "abi/graph.hpp"
#include "abi/host.hpp"
#include "device_run/device_memory.hpp"
#include "device_run/script.hpp"

#include "quern/quern_plan.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace quern::conformance::abi {

/// A plugin handle and its device 0 (or `index`), made with the script's own host, which outlives it.
class OwnDevice {
 public:
  OwnDevice(ScriptContext& t, TestHost& host, std::uint32_t index);
  OwnDevice(ScriptContext& t, TestHost& host) : OwnDevice(t, host, t.device().index()) {}
  ~OwnDevice();
  OwnDevice(const OwnDevice&) = delete;
  OwnDevice& operator=(const OwnDevice&) = delete;

  DeviceRef ref() const;
  quern_plugin* plugin() const noexcept { return plugin_; }
  quern_device* device() const noexcept { return device_; }

 private:
  const quern_plugin_api& api_;
  quern_plugin* plugin_ = nullptr;
  quern_device* device_ = nullptr;
  quern_device_info info_{};
};

quern_compile_options compile_options();

class Plan {
 public:
  Plan(DeviceRef device, const quern_graph* graph) : Plan(device, graph, compile_options()) {}
  Plan(DeviceRef device, const quern_graph* graph, quern_compile_options options);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  quern_plan* get() const noexcept { return plan_; }
  quern_plan_info info() const;

 private:
  DeviceRef device_;
  quern_plan* plan_ = nullptr;
};

class Instance {
 public:
  Instance(DeviceRef device, const Plan& plan, std::vector<quern_bound> bounds = {}, std::uint32_t max_in_flight = 1);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  quern_instance* get() const noexcept { return instance_; }
  const quern_instance_info& info() const noexcept { return info_; }
  quern_counters counters() const;

 private:
  DeviceRef device_;
  quern_instance* instance_ = nullptr;
  quern_instance_info info_{};
};

using Spans = std::map<std::uint32_t, quern_span>;

/// prepare of one instance with one span a value. What it answers is returned.
quern_status prepare(DeviceRef device, Queue& queue, quern_instance* instance, const Spans& spans, quern_span scratch, AbiError& error);

/// An instance that was prepared, with its scratch.
class Ready {
 public:
  Ready(DeviceRef device, Queue& queue, const Plan& plan, const Spans& spans, std::vector<quern_bound> bounds = {});

  Instance& instance() noexcept { return instance_; }
  Region& scratch() noexcept { return *scratch_; }
  /// A run of this instance, to be changed before submit().
  quern_run run() const;
  /// Submits one run and waits for it. `status`, if it is set, is the run's own.
  quern_status submit(quern_run run, AbiError& error);
  /// Submits, and returns how the run ended. Throws AbiFailure if it was not enqueued.
  quern_run_status go(const std::vector<quern_patch>& patches = {}, const std::vector<quern_bound>& bounds = {});

 private:
  DeviceRef device_;
  Queue& queue_;
  Instance instance_;
  std::unique_ptr<Region> scratch_;
};

/// `count` elements of device memory with canaries, filled with values.
template <class T>
class Array {
 public:
  Array(DeviceRef device, Queue& queue, const std::vector<T>& values)
      : region_(device, queue, values.size() * sizeof(T), 0, true), count_(values.size()) {
    write(values);
  }
  void write(const std::vector<T>& values) { region_.write(std::as_bytes(std::span(values))); }
  std::vector<T> read() {
    const std::vector<std::byte> bytes = region_.read();
    std::vector<T> values(count_);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(values.data()));
    return values;
  }
  quern_span span() const noexcept { return region_.span(); }
  bool intact() { return region_.canary_damage().empty(); }

 private:
  Region region_;
  std::size_t count_;
};
using Floats = Array<float>;
using Integers = Array<std::int32_t>;

/// first, first + 1, ...: exact in f32, so that sums of few of them are too.
std::vector<float> counting(std::size_t count, float first);

template <class T>
quern_patch patch_of(std::uint32_t value, const T& data, std::uint64_t offset = 0) {
  return {value, 0, offset, sizeof(T), &data};
}

/// The answer for a node. Throws AbiFailure where support itself fails.
struct Answer {
  std::uint32_t verdict;
  quern_status code;
  std::string text, kernel;
};
std::vector<Answer> ask(DeviceRef device, const quern_graph* graph);

/// Checks that `support` answers node 0 with a reasoned "no" and that compile refuses the graph.
void check_no(ScriptContext& t, Graph& graph, const std::string& claim);
/// Checks that a call answered one of the codes, and that the error says so with a text.
void check_refused(ScriptContext& t, quern_status found, const AbiError& error, std::initializer_list<quern_status> allowed,
                   const std::string& claim);

}  // namespace quern::conformance::abi
