// The C functions of a plugin whose devices take work on queues (work_queue.hpp): they check, then enqueue. ASYNCHRONOUS.md has what holds.
//
// Include it behind the definitions of the handles (QUERN_PLUGIN_HANDLES_WITH_QUEUES), in one file:
//   QUERN_PLUGIN_ENTRY(quern::sdk::Asynchronous<Backend>::table("cuda", version, build))
//
// An instance's begin() is called when a run of its is submitted: it forgets the cancel of an earlier run, and nothing else does. An Instance's
// prepare() takes the queue too. No run of it is in flight then.
//
// A host below minor 1 makes no queues. To it the device is SYNCHRONOUS: calls without a queue go to one of the plugin's own. Downloads and
// runs are waited for there, and what is behind them on that queue needs no wait.
//
// Part of the plugin SDK; C++17, not part of the ABI.
#ifndef QUERN_SDK_ASYNCHRONOUS_HPP
#define QUERN_SDK_ASYNCHRONOUS_HPP

#include "quern/sdk/device_calls.hpp"
#include "quern/sdk/work_queue.hpp"

namespace quern {
namespace sdk {

inline constexpr std::uint32_t least_minor_with_queues = 1;

template <class Backend>
class Asynchronous : DeviceCalls<Backend> {
  using Calls = DeviceCalls<Backend>;
  using Device = typename Backend::Device;
  using quern_plugin = typename HandlesOf<Backend>::Plugin;
  using quern_device = typename HandlesOf<Backend>::Device;
  using quern_buffer = typename HandlesOf<Backend>::Buffer;
  using quern_instance = typename HandlesOf<Backend>::Instance;
  using quern_queue = typename HandlesOf<Backend>::Queue;
  using quern_fence = typename HandlesOf<Backend>::Fence;
  using Line = Timeline<Backend>;
  using Lock = typename Line::Lock;
  using JobType = Job<Backend>;
  using Kind = typename JobType::Kind;
  using Calls::alive;
  using Calls::buffer_of;
  using Calls::object;

 public:
  static quern_plugin_api table(const char* id, const char* version, const char* build) noexcept {
    quern_plugin_api api = Calls::common_table(id, version, build);
    api.device_info = [](quern_plugin* plugin, std::uint32_t index, quern_device_info* out, quern_error* error) {
      const bool waits = plugin != nullptr && !makes_queues(*plugin);
      return Calls::fill_device_info(plugin, index, out, waits ? QUERN_CAP_SYNCHRONOUS : 0, error);
    };
    api.device_open = device_open;
    api.device_close = device_close;
    api.queue_create = queue_create;
    api.queue_destroy = queue_destroy;
    api.fence_create = fence_create;
    api.fence_destroy = fence_destroy;
    api.fence_query = fence_query;
    api.fence_wait = fence_wait;
    api.fence_signal = fence_signal;
    api.fence_info = fence_info;
    api.buffer_destroy = buffer_destroy;
    api.upload = upload;
    api.download = download;
    api.copy = copy;
    api.fill = fill;
    api.instance_destroy = instance_destroy;
    api.prepare = prepare;
    api.submit = submit;
    if constexpr (detail::HasPacking<Device>::value) api.weights_pack = weights_pack;
    return api;
  }

 private:
  static constexpr std::uint64_t longest_wait = std::uint64_t{1} << 60;  // nanoseconds; a clock holds no more

  static bool makes_queues(const quern_plugin& plugin) noexcept { return plugin.host.abi_minor >= least_minor_with_queues; }

  static quern_device& device_of(DeviceOf<Backend>& device) noexcept { return static_cast<quern_device&>(device); }
  static quern_queue& alive(quern_queue* queue) {
    object(queue, "queue").owner.plugin.process.check();
    return *queue;
  }
  static quern_fence& alive(quern_fence* fence) {
    object(fence, "fence").owner.plugin.process.check();
    return *fence;
  }
  [[noreturn]] static void busy(const char* what) {
    throw Failure(QUERN_BUSY, concat("work that is not done names the ", what, "; wait for its point"), 31);
  }

  /// The queue of a call with room for so many jobs. Without a host that makes queues it is made room for.
  static quern_queue& queue_for(quern_device& device, quern_queue* queue, std::uint64_t jobs, Lock& lock) {
    if (device.own != nullptr) {
      if (queue != nullptr)
        throw Failure(QUERN_INVALID_ARGUMENT, "a queue is named; this device is synchronous for a host of this minor", 18);
      if (!device.own->has_room(jobs)) Line::drain(device, lock, *device.own);
      return *device.own;
    }
    if (queue == nullptr) throw Failure(QUERN_INVALID_ARGUMENT, "no queue was given; this device is not synchronous", 31);
    if (&queue->owner != &device) throw Failure(QUERN_INVALID_ARGUMENT, "the queue is of another device", 18);
    if (jobs > most_jobs) throw Failure(QUERN_UNSUPPORTED, concat(jobs, " runs at once; a queue holds ", most_jobs), 18);
    Line::advance(device, *queue);
    if (!queue->has_room(jobs)) Line::advance(device);
    if (!queue->has_room(jobs)) throw Failure(QUERN_BUSY, "the queue is full; wait for a point of it", 31);
    return *queue;
  }

  static void take_points(const quern_device& device, const quern_array& list, bool waits, Points& to) {
    const List<quern_point> points(list, waits ? "waits" : "signals");
    if (points.size() > most_points - to.count)
      throw Failure(QUERN_UNSUPPORTED, concat("more than ", most_points, " points for one call"), 18);
    for (const quern_point& p : points) {
      if (p.fence == nullptr || &static_cast<quern_fence*>(p.fence)->owner != &device)
        throw Failure(QUERN_INVALID_ARGUMENT, "a point of no fence of this device", 18);
      const quern_fence& fence = *p.fence;
      if (waits && !fence.host_signals() && fence.promised < p.value)
        throw Failure(QUERN_INVALID_ARGUMENT,
                      concat("a wait for ", p.value, ", of which ", fence.promised, " is the last that was enqueued"), 18);
      if (!waits && fence.host_signals()) throw Failure(QUERN_INVALID_ARGUMENT, "a HOST_SIGNAL fence is signalled by the host alone", 31);
      to.list[to.count++] = p;
    }
  }
  static void take_sync(const quern_device& device, const quern_sync* sync, JobType& job) {
    if (sync == nullptr) return;
    const quern_sync s = read(sync);
    if (device.own != nullptr && (s.wait.count != 0 || s.signal.count != 0))
      throw Failure(QUERN_INVALID_ARGUMENT, "fences are named; this device is synchronous for a host of this minor", 18);
    take_points(device, s.wait, true, job.waits);
    take_points(device, s.signal, false, job.signals);
  }

  /// What every call with one job does. `fill(job)` checks what was asked.
  template <class Fill>
  static quern_status enqueue(quern_device* device, quern_queue* queue, Kind kind, const quern_sync* sync, quern_error* error,
                              const Fill& fill) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      Lock lock(d.device->order());
      quern_queue& q = queue_for(d, queue, 1, lock);
      JobType job;
      job.kind = kind;
      take_sync(d, sync, job);
      fill(d, job);
      if (job.bytes == 0 && !job.layout) job.kind = Kind::nothing;
      Line::enqueue(d, q, std::move(job));
      if (d.own != nullptr && kind == Kind::download) finish(d, q, lock);
    });
  }
  /// Waits in a call of a host that makes no queues.
  static void finish(quern_device& device, quern_queue& queue, Lock& lock) {
    Line::drain(device, lock, queue);
    if (device.lost) throw Failure(*device.lost);
  }

  static quern_status device_open(quern_plugin* plugin, std::uint32_t index, quern_device** out, quern_error* error) {
    const quern_status status = Calls::device_open(plugin, index, out, error);
    if (status != QUERN_OK || makes_queues(*plugin)) return status;
    const quern_status made = guarded(error, [&] {
      (*out)->queues.reserve(1);
      (*out)->own = new quern_queue(**out, (*out)->device->make_queue());
      (*out)->queues.push_back((*out)->own);
    });
    if (made != QUERN_OK) {
      Calls::device_close(*out, nullptr);
      *out = nullptr;
    }
    return made;
  }

  static quern_status device_close(quern_device* device, quern_error* error) {
    if (device != nullptr && device->own != nullptr && device->children == 0) {
      const quern_status status = guarded(error, [&] {
        quern_device& d = alive(device);
        Lock lock(d.device->order());
        Line::drain(d, lock, *d.own);
        d.queues.clear();
        delete std::exchange(d.own, nullptr);
      });
      if (status != QUERN_OK) return status;
    }
    return Calls::device_close(device, error);
  }

  static quern_status queue_create(quern_device* device, std::uint32_t kind, quern_queue** out, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      object(out, "place for the queue") = nullptr;
      if (kind != QUERN_QUEUE_COMPUTE && kind != QUERN_QUEUE_TRANSFER) throw Failure(QUERN_UNSUPPORTED, concat("queue kind ", kind), 3);
      if (d.own != nullptr) throw Failure(QUERN_UNSUPPORTED, "this device is synchronous for a host of this minor", 18);
      auto queue = std::make_unique<quern_queue>(d, d.device->make_queue());
      const Lock lock(d.device->order());
      d.queues.push_back(queue.get());
      d.children.fetch_add(1);
      *out = queue.release();
    });
  }

  static quern_status queue_destroy(quern_queue* queue, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = device_of(alive(queue).owner);
      const Lock lock(d.device->order());
      Line::advance(d);
      if (queue->head != queue->tail) busy("queue");
      d.queues.erase(std::find(d.queues.begin(), d.queues.end(), queue));
      d.children.fetch_sub(1);
      delete queue;
    });
  }

  static quern_status fence_create(quern_device* device, std::uint64_t initial, std::uint32_t flags, quern_fence** out,
                                   quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      object(out, "place for the fence") = nullptr;
      check_flags(flags, QUERN_FENCE_HOST_SIGNAL, "fence flags");
      *out = new quern_fence(d, initial, flags);
      d.children.fetch_add(1);
    });
  }

  static quern_status fence_destroy(quern_fence* fence, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = device_of(alive(fence).owner);
      const Lock lock(d.device->order());
      Line::advance(d);
      if (Line::in_flight(d, fence)) busy("fence");
      d.children.fetch_sub(1);
      delete fence;
    });
  }

  static quern_status fence_query(quern_fence* fence, std::uint64_t* value, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = device_of(alive(fence).owner);
      object(value, "place for the value");
      const Lock lock(d.device->order());
      *value = value_of(d, *fence);
    });
  }
  static std::uint64_t value_of(quern_device& device, const quern_fence& fence) {
    Line::hasten(device);
    Line::advance(device);
    return fence.value;
  }

  static quern_status fence_info(quern_fence* fence, quern_fence_info* out, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = device_of(alive(fence).owner);
      check(out);
      const Lock lock(d.device->order());
      quern_fence_info info = made<quern_fence_info>();
      info.value = value_of(d, *fence);
      info.flags = fence->flags;
      write(out, info);
    });
  }

  static quern_status fence_signal(quern_fence* fence, std::uint64_t value, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = device_of(alive(fence).owner);
      const Lock lock(d.device->order());
      if (!fence->host_signals()) throw Failure(QUERN_INVALID_ARGUMENT, "only a HOST_SIGNAL fence is signalled by the host", 18);
      if (value < fence->value)
        throw Failure(QUERN_INVALID_ARGUMENT, concat("a fence never goes back, from ", fence->value, " to ", value), 31);
      fence->value = fence->promised = value;
      Line::advance(d);
      d.changed.notify_all();
    });
  }

  static quern_status fence_wait(quern_device* device, const quern_array* points, std::uint32_t any, std::uint64_t nanoseconds,
                                 quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      const auto until = Line::Clock::now() + std::chrono::nanoseconds(std::min(nanoseconds, longest_wait));
      const List<quern_point> list(object(points, "list of points"), "points");
      for (const quern_point& p : list)
        if (p.fence == nullptr || &static_cast<quern_fence*>(p.fence)->owner != &d)
          throw Failure(QUERN_INVALID_ARGUMENT, "a point of no fence of this device", 18);
      const auto enough = [&] {
        std::uint64_t count = 0;
        for (const quern_point& p : list) count += Line::reached(p) ? 1 : 0;
        return any != 0 && list.size() > 0 ? count > 0 : count == list.size();
      };
      Lock lock(d.device->order());
      if (!Line::wait(d, lock, list, any != 0, until, enough))
        throw Failure(QUERN_TIMEOUT, concat("not reached within ", nanoseconds, " ns"));
    });
  }

  static quern_status buffer_destroy(quern_buffer* buffer, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = device_of(alive(buffer).owner);
      Lock lock(d.device->order());
      Line::advance(d);
      if (d.own != nullptr) Line::drain(d, lock, *d.own);
      if (Line::in_flight(d, buffer)) busy("buffer");
      if constexpr (detail::HasRetire<Device, typename Backend::Memory>::value) d.device->retire(buffer->memory);
      d.children.fetch_sub(1);
      delete buffer;
    });
  }

  static quern_status upload(quern_device* device, quern_queue* queue, const quern_span* to, const void* from, std::uint64_t bytes,
                             const quern_sync* sync, quern_error* error) {
    return enqueue(device, queue, Kind::upload, sync, error, [&](quern_device& d, JobType& job) {
      job.to = {&buffer_of(d, object(to, "span"), bytes), to->offset};
      if (bytes > 0) job.source = &object(static_cast<const std::byte*>(from), "source");
      job.bytes = bytes;
    });
  }

  static quern_status download(quern_device* device, quern_queue* queue, void* to, const quern_span* from, std::uint64_t bytes,
                               const quern_sync* sync, quern_error* error) {
    return enqueue(device, queue, Kind::download, sync, error, [&](quern_device& d, JobType& job) {
      job.from = {&buffer_of(d, object(from, "span"), bytes), from->offset};
      if (bytes > 0) job.target = &object(static_cast<std::byte*>(to), "target");
      job.bytes = bytes;
    });
  }

  static quern_status copy(quern_device* device, quern_queue* queue, const quern_span* to, const quern_span* from, std::uint64_t bytes,
                           const quern_sync* sync, quern_error* error) {
    return enqueue(device, queue, Kind::copy, sync, error, [&](quern_device& d, JobType& job) {
      const auto [source, target] = Calls::copy_ends(d, to, from, bytes);
      job.to = {target, to->offset};
      job.from = {source, from->offset};
      job.bytes = bytes;
    });
  }

  static quern_status fill(quern_device* device, quern_queue* queue, const quern_span* to, std::uint32_t pattern, std::uint64_t bytes,
                           const quern_sync* sync, quern_error* error) {
    return enqueue(device, queue, Kind::fill, sync, error, [&](quern_device& d, JobType& job) {
      job.to = {&Calls::fill_end(d, to, bytes), to->offset};
      job.pattern = pattern;
      job.bytes = bytes;
    });
  }

  static quern_status weights_pack(quern_device* device, quern_queue* queue, const quern_weight_item* item, const quern_array* sources,
                                   const quern_array* destination, const quern_sync* sync, quern_error* error) {
    return enqueue(device, queue, Kind::pack, sync, error, [&](quern_device& d, JobType& job) {
      const auto asked = Calls::packed(d, item, sources, destination);
      job.from = {&buffer_of(d, asked.from, asked.layout.source_bytes()), asked.from.offset};
      job.to = {&buffer_of(d, asked.to, asked.layout.bytes()), asked.to.offset};
      Calls::require_packed_alignment(d, job.to.buffer->memory.address() + job.to.offset);
      job.layout = asked.layout;
    });
  }

  static quern_status instance_destroy(quern_instance* instance, quern_error* error) {
    return guarded(error, [&] {
      PlanOf<Backend>& plan = alive(instance).owner;
      quern_device& d = device_of(plan.owner);
      const Lock lock(d.device->order());
      Line::advance(d);
      if (instance->in_flight) busy("instance");
      plan.instances.fetch_sub(1);
      delete instance;
    });
  }

  /// Bound at once: nothing of these instances is in flight. The point is that of what it enqueues.
  static quern_status prepare(quern_device* device, quern_queue* queue, const quern_array* entries, const quern_sync* sync,
                              quern_error* error) {
    return enqueue(device, queue, Kind::nothing, sync, error, [&](quern_device& d, JobType&) {
      const List<quern_prepare_entry> list(object(entries, "list of entries"), "entries");
      Line::advance(d);
      std::vector<BoundPlaces> places;  // all entries or none
      std::vector<std::vector<quern_buffer*>> buffers(static_cast<std::size_t>(list.size()));
      for (const quern_prepare_entry& entry : list) {
        if (entry.instance != nullptr && static_cast<quern_instance*>(entry.instance)->in_flight) busy("instance");
        places.push_back(Calls::places_of(d, entry, [&](quern_buffer* buffer) { buffers[places.size()].push_back(buffer); }));
      }
      const quern_queue& q = d.own != nullptr ? *d.own : *queue;
      for (std::uint64_t e = 0; e < list.size(); ++e) {
        auto* instance = static_cast<quern_instance*>(list[e].instance);
        instance->bound = std::move(buffers[static_cast<std::size_t>(e)]);
        instance->instance.prepare(std::move(places[static_cast<std::size_t>(e)]), *q.lane);
      }
    });
  }

  static quern_status submit(quern_device* device, quern_queue* queue, const quern_array* runs, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      const List<quern_run> list(object(runs, "list of runs"), "runs");
      Lock lock(d.device->order());
      quern_queue& q = queue_for(d, queue, d.own != nullptr ? 0 : list.size(), lock);
      Line::require_patch_room(q, list);
      for (std::uint64_t r = 0; r < list.size(); ++r) {  // all or none
        const quern_run run = list[r];
        JobType ignored;
        take_sync(d, run.sync, ignored);
        const quern_instance& i = Calls::instance_of(run.instance, d);
        if (i.in_flight) Line::advance(d);  // on another queue
        bool taken = i.in_flight;
        for (std::uint64_t before = 0; before < r; ++before) taken = taken || list[before].instance == run.instance;
        if (taken && d.own == nullptr) throw Failure(QUERN_BUSY, "a run of the instance is in flight; it takes no more", 12);
        Calls::checked_run(d, run);
      }
      for (const quern_run& run : list) static_cast<quern_instance*>(run.instance)->instance.begin();
      bool first = true;
      for (const quern_run& run : list) enqueue_run(d, q, run, !std::exchange(first, false), error, lock);
      if (d.own != nullptr) finish(d, q, lock);
    });
  }
  static void enqueue_run(quern_device& device, quern_queue& queue, const quern_run& run, bool behind, quern_error* error, Lock& lock) {
    quern_instance& i = *static_cast<quern_instance*>(run.instance);
    if (device.own != nullptr && (i.in_flight || !queue.has_room(1))) Line::drain(device, lock, queue);
    i.instance.bounds().check_run(run);
    JobType job;
    job.kind = Kind::run;
    job.instance = &i;
    job.run = run;
    job.run.sync = nullptr;
    job.run.bounds = {};
    job.behind = behind && device.own == nullptr;
    if (device.own != nullptr) job.error = error;
    take_sync(device, run.sync, job);
    Line::enqueue(device, queue, std::move(job));
  }
};

}  // namespace sdk
}  // namespace quern

#endif
