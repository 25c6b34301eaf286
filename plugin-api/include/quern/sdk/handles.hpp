// What the opaque handles of the ABI are in a device plugin, and what its Backend gives.
//
//   QUERN_PLUGIN_HANDLES(my::Backend)            once, at namespace scope
//
//   Backend(const quern_host&)                     may refuse options; its members are called from any thread
//     device_count()                               opens the driver at first use; throws what is missing
//     no_device()                                  the text where there is none (or of BackendDefaults)
//     device_info(index, Texts&)                   costs no device memory; QUERN_CAP_SYNCHRONOUS is added
//     prove(index)                                 runs a small kernel and compares; throws what is wrong
//     explain(const Failure&, quern_reason&, ...)  what is missing, and the remedy (or of BackendDefaults: nothing)
//     open(index) -> std::unique_ptr<Device>
//   Device: order() a mutex that runs and copies hold (NoOrder: runs may overlap); offers(). Where the Backend has a type Memory, the device
//     has memory of its own: heap_count(), heap(i), limit(i, bytes);
//     allocate(bytes, usage) -> Memory with address(); write, read, move, fill of (Memory&, offset, ...).
//     Without that type values lie in host memory: the table has no functions of heaps, buffers and copies; use
//     QUERN_PLUGIN_HANDLES_ON_HOST and give QUERN_CAP_HOST_MEMORY in device_info(). A device that takes work on queues has these
//     functions in a type Queue (work_queue.hpp)
//   It may have, and its table has those functions then:
//     trim(level)                                  gives idle memory back
//     packing() -> const WeightPacking*            weights that it packs (weights.hpp; of a class with parse), null: none, and
//       pack(layout, Memory& from, offset, Memory& to, offset), on host memory pack(layout, const void* from, void* to)
//     retire(Memory&)                              before memory is given back: waits for what uses it; throws, and it stays
//     span_alignment                               of values and scratch; else sdk::span_alignment
//     view_alignment                               of views that are bound by themselves; else 1
//   Plan(Device&, const quern_graph*, const quern_compile_options&, refused): graph, infos, numerics_key, determinism, launches;
//     it may have told (told_schedules.hpp): plan_info then has its schedules
//   Instance(const Plan&, Device&): bounds(), scratch_bytes(), private_bytes(), ready(), prepare(BoundPlaces), cancel(), counters(), and how a
//     run goes: run_list.hpp
//
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_HANDLES_HPP
#define QUERN_SDK_HANDLES_HPP

#include "quern/sdk/bindings.hpp"
#include "quern/sdk/entry.hpp"
#include "quern/sdk/weights.hpp"

#include <atomic>

namespace quern {
namespace sdk {

inline constexpr std::uint64_t span_alignment = 256;

/// An option of the host, or empty.
inline std::string host_option(const quern_host& host, const char* key) {
  if (host.option == nullptr) return {};
  std::string value(256, '\0');
  const std::uint64_t size = host.option(host.context, key, value.data(), value.size());
  if (size == UINT64_MAX) return {};
  if (size > value.size())
    throw Failure(QUERN_INVALID_ARGUMENT, concat("option '", key, "' has ", size, " bytes, at most ", value.size(), " are taken"));
  value.resize(static_cast<std::size_t>(size));
  return value;
}

/// For Device::order() of a device whose runs may overlap.
struct NoOrder {
  void lock() noexcept {}
  void unlock() noexcept {}
};

/// The handles, for what is compiled before they are defined.
template <class Backend>
struct HandlesOf {
  using Plugin = ::quern_plugin;
  using Device = ::quern_device;
  using Buffer = ::quern_buffer;
  using Plan = ::quern_plan;
  using Instance = ::quern_instance;
  using Queue = ::quern_queue;
  using Fence = ::quern_fence;
};

struct BackendDefaults {
  const char* no_device() const noexcept { return "there is no device"; }
  void explain(const Failure&, quern_reason&, Texts&) const noexcept {}
};

template <class Backend>
struct PluginOf {
  explicit PluginOf(const quern_host& given) : host(given), backend(host) {}
  quern_host host;
  Process process;
  Texts texts;
  Backend backend;
  std::atomic<std::uint32_t> devices{0};
};
template <class Backend>
struct DeviceOf {
  DeviceOf(PluginOf<Backend>& owner, std::unique_ptr<typename Backend::Device> opened) : plugin(owner), device(std::move(opened)) {}
  PluginOf<Backend>& plugin;
  std::unique_ptr<typename Backend::Device> device;
  std::atomic<std::uint32_t> children{0};
  std::mutex weights_lock;
  std::vector<std::unique_ptr<WeightList>> weights;
};
template <class Backend>
struct BufferOf {
  BufferOf(DeviceOf<Backend>& of, typename Backend::Memory taken, std::uint64_t size) : owner(of), memory(std::move(taken)), bytes(size) {}
  DeviceOf<Backend>& owner;
  typename Backend::Memory memory;
  std::uint64_t bytes;
};
template <class Backend>
struct PlanOf {
  PlanOf(DeviceOf<Backend>& of, const quern_graph* graph, const quern_compile_options& options, std::vector<std::uint32_t>& refused)
      : owner(of), plan(*of.device, graph, options, refused) {}
  DeviceOf<Backend>& owner;
  typename Backend::Plan plan;
  std::atomic<std::uint32_t> instances{0};
};
template <class Backend>
struct InstanceOf {
  explicit InstanceOf(PlanOf<Backend>& plan) : owner(plan), instance(plan.plan, *plan.owner.device) {}
  PlanOf<Backend>& owner;
  typename Backend::Instance instance;
};

}  // namespace sdk
}  // namespace quern

/// Defines the handles for a Backend on host memory, which has no buffers.
#define QUERN_PLUGIN_HANDLES_ON_HOST(...) \
  struct quern_plugin : quern::sdk::PluginOf<__VA_ARGS__> { \
    using PluginOf::PluginOf; \
  }; \
  struct quern_device : quern::sdk::DeviceOf<__VA_ARGS__> { \
    using DeviceOf::DeviceOf; \
  }; \
  struct quern_plan : quern::sdk::PlanOf<__VA_ARGS__> { \
    using PlanOf::PlanOf; \
  }; \
  struct quern_instance : quern::sdk::InstanceOf<__VA_ARGS__> { \
    using InstanceOf::InstanceOf; \
  }

/// Defines the five handles for a Backend with memory of its own.
#define QUERN_PLUGIN_HANDLES(...) \
  QUERN_PLUGIN_HANDLES_ON_HOST(__VA_ARGS__); \
  struct quern_buffer : quern::sdk::BufferOf<__VA_ARGS__> { \
    using BufferOf::BufferOf; \
  }

#endif
