// The C functions of a plugin whose devices run synchronously, on memory of their own or on the host's: each is done when it returns.
//
// Include it behind the definitions of the handles (handles.hpp), in one file:
//   QUERN_PLUGIN_ENTRY(quern::sdk::Synchronous<Backend>::table("vulkan", version, build))
//
// An instance's begin() is called when a run of its is submitted, before that waits for another one on its device: it forgets the cancel of
// an earlier run there, and nowhere else.
//
// Part of the plugin SDK; C++17, not part of the ABI.
#ifndef QUERN_SDK_SYNCHRONOUS_HPP
#define QUERN_SDK_SYNCHRONOUS_HPP

#include "quern/sdk/device_calls.hpp"
#include "quern/sdk/run_list.hpp"

namespace quern {
namespace sdk {

template <class Backend>
class Synchronous : DeviceCalls<Backend> {
  using Calls = DeviceCalls<Backend>;
  using Device = typename Backend::Device;
  using quern_plugin = typename HandlesOf<Backend>::Plugin;
  using quern_device = typename HandlesOf<Backend>::Device;
  using quern_buffer = typename HandlesOf<Backend>::Buffer;
  using quern_instance = typename HandlesOf<Backend>::Instance;
  using Calls::alive;
  using Calls::buffer_of;
  using Calls::has_buffers;
  using Calls::object;

 public:
  static quern_plugin_api table(const char* id, const char* version, const char* build) noexcept {
    quern_plugin_api api = Calls::common_table(id, version, build);
    api.device_info = [](quern_plugin* plugin, std::uint32_t index, quern_device_info* out, quern_error* error) {
      return Calls::fill_device_info(plugin, index, out, QUERN_CAP_SYNCHRONOUS, error);
    };
    if constexpr (has_buffers) {
      api.buffer_destroy = buffer_destroy;
      api.upload = upload;
      api.download = download;
      api.copy = copy;
      api.fill = fill;
    }
    api.instance_destroy = instance_destroy;
    api.prepare = prepare;
    api.submit = submit;
    if constexpr (detail::HasPacking<Device>::value) api.weights_pack = weights_pack;
    return api;
  }

 private:
  static void require_synchronous(const quern_queue* queue, const quern_sync* sync) {
    if (queue != nullptr)
      throw Failure(QUERN_INVALID_ARGUMENT, "a queue is named; this device is synchronous, the host keeps its queues", 18);
    if (sync == nullptr) return;
    const quern_sync s = read(sync);
    if (s.wait.count != 0 || s.signal.count != 0)
      throw Failure(QUERN_INVALID_ARGUMENT, "fences are named; this device is synchronous, the host keeps its fences", 18);
  }

  static quern_status buffer_destroy(quern_buffer* buffer, quern_error* error) {
    return guarded(error, [&] {
      DeviceOf<Backend>& d = alive(buffer).owner;
      const std::lock_guard lock(d.device->order());
      if constexpr (detail::HasRetire<Device, typename Backend::Memory>::value) d.device->retire(buffer->memory);
      d.children.fetch_sub(1);
      delete buffer;
    });
  }

  static quern_status upload(quern_device* device, quern_queue* queue, const quern_span* to, const void* from, std::uint64_t bytes,
                             const quern_sync* sync, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      require_synchronous(queue, sync);
      quern_buffer& target = buffer_of(d, object(to, "span"), bytes);
      if (bytes == 0) return;
      object(static_cast<const std::byte*>(from), "source");
      const std::lock_guard lock(d.device->order());
      d.device->write(target.memory, to->offset, from, bytes);
    });
  }

  static quern_status download(quern_device* device, quern_queue* queue, void* to, const quern_span* from, std::uint64_t bytes,
                               const quern_sync* sync, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      require_synchronous(queue, sync);
      quern_buffer& source = buffer_of(d, object(from, "span"), bytes);
      if (bytes == 0) return;
      object(static_cast<std::byte*>(to), "target");
      const std::lock_guard lock(d.device->order());
      d.device->read(to, source.memory, from->offset, bytes);
    });
  }

  static quern_status copy(quern_device* device, quern_queue* queue, const quern_span* to, const quern_span* from, std::uint64_t bytes,
                           const quern_sync* sync, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      require_synchronous(queue, sync);
      const auto [source, target] = Calls::copy_ends(d, to, from, bytes);
      if (bytes == 0) return;
      const std::lock_guard lock(d.device->order());
      d.device->move(target->memory, to->offset, source->memory, from->offset, bytes);
    });
  }

  static quern_status fill(quern_device* device, quern_queue* queue, const quern_span* to, std::uint32_t pattern, std::uint64_t bytes,
                           const quern_sync* sync, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      require_synchronous(queue, sync);
      quern_buffer& target = Calls::fill_end(d, to, bytes);
      if (bytes == 0) return;
      const std::lock_guard lock(d.device->order());
      d.device->fill(target.memory, to->offset, pattern, bytes);
    });
  }

  static quern_status weights_pack(quern_device* device, quern_queue* queue, const quern_weight_item* item, const quern_array* sources,
                                   const quern_array* destination, const quern_sync* sync, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      require_synchronous(queue, sync);
      const auto asked = Calls::packed(d, item, sources, destination);
      const quern_span &from = asked.from, &to = asked.to;
      if constexpr (has_buffers) {
        quern_buffer &source = buffer_of(d, from, asked.layout.source_bytes()), &target = buffer_of(d, to, asked.layout.bytes());
        Calls::require_packed_alignment(d, target.memory.address() + to.offset);
        const std::lock_guard lock(d.device->order());
        d.device->pack(asked.layout, source.memory, from.offset, target.memory, to.offset);
      } else {
        require_host(from, asked.layout.source_bytes(), "source", asked.key);
        require_host(to, asked.layout.bytes(), "destination", asked.key);
        Calls::require_packed_alignment(d, reinterpret_cast<std::uintptr_t>(to.host));
        d.device->pack(asked.layout, from.host, to.host);
      }
    });
  }
  static void require_host(const quern_span& span, std::uint64_t bytes, const char* what, const std::string& key) {
    if (span.host == nullptr || span.bytes < bytes)
      throw Failure(QUERN_INVALID_ARGUMENT,
                    concat("the ", what, " of '", key, "' has ", span.host == nullptr ? 0 : span.bytes, " host bytes; it needs ", bytes),
                    16);
  }

  static quern_status instance_destroy(quern_instance* instance, quern_error* error) {
    return guarded(error, [&] {
      PlanOf<Backend>& plan = alive(instance).owner;
      const std::lock_guard lock(plan.owner.device->order());
      plan.instances.fetch_sub(1);
      delete instance;
    });
  }

  static quern_status prepare(quern_device* device, quern_queue* queue, const quern_array* entries, const quern_sync* sync,
                              quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      require_synchronous(queue, sync);
      const std::lock_guard lock(d.device->order());
      const List<quern_prepare_entry> list(object(entries, "list of entries"), "entries");
      std::vector<BoundPlaces> places;  // all entries or none
      for (const quern_prepare_entry& entry : list) places.push_back(Calls::places_of(d, entry, [](const quern_buffer*) {}));
      for (std::uint64_t e = 0; e < list.size(); ++e)
        static_cast<quern_instance*>(list[e].instance)->instance.prepare(std::move(places[e]));
    });
  }

  static quern_status submit(quern_device* device, quern_queue* queue, const quern_array* runs, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      require_synchronous(queue, nullptr);
      const List<quern_run> list(object(runs, "list of runs"), "runs");
      for (const quern_run& run : list) Calls::instance_of(run.instance, d).instance.begin();
      const std::lock_guard lock(d.device->order());
      RunList<typename Backend::Instance> under_way(error);
      for (int pass = 0; pass < 2; ++pass)
        for (const quern_run& run : list) {
          if (run.sync != nullptr) require_synchronous(nullptr, run.sync);
          quern_instance& i = Calls::checked_run(d, run);
          if (pass == 1) under_way.start(i.instance, run);
        }
    });
  }
};

}  // namespace sdk
}  // namespace quern

#endif
