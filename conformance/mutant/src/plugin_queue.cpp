// libbackend_mutant_queue.so: the sample device behind queues, a plugin without QUERN_CAP_SYNCHRONOUS, so that the suite's queue and fence
// cases run on something. The option mutant=NAME spoils it as a QUERN_QUEUE_MUTANT row of ../mutants.def says; "none", or no option: nothing.
//
// Each queue is a thread that works through a ring of jobs made at queue_create, so that submit allocates nothing. The arithmetic, memory
// and checks are the raw sample's, whose source this file includes under another id.
#include "mutation.hpp"

#undef QUERN_PLUGIN_NOTE
#undef QUERN_PLUGIN_ENTRY
#define QUERN_PLUGIN_NOTE(...) static_assert(true)
#define QUERN_PLUGIN_ENTRY(...)
#include "raw_plugin.cpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <thread>

extern "C" __attribute__((used, section(QUERN_NOTE_SECTION))) constexpr auto quern_queue_note =
    sdk::make_note("mutant_queue", SAMPLE_VERSION, QUERN_DEVICE_OTHER, 0, "");

using quern::mutant::Behaviour;

/// One timeline for all fences of a plugin handle.
struct Timeline {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<quern_instance*, std::uint32_t> in_flight;
  std::vector<quern_queue*> queues;
};
struct AsyncPlugin : quern_plugin {
  AsyncPlugin(const quern_host& given, Behaviour chosen) : quern_plugin{given, {}, {}}, behaviour(chosen) {}
  const Behaviour behaviour;
  Timeline timeline;
};
Behaviour behaviour(const quern_device& device) { return static_cast<AsyncPlugin&>(device.plugin).behaviour; }
Timeline& timeline(const quern_device& device) { return static_cast<AsyncPlugin&>(device.plugin).timeline; }

struct quern_fence {
  quern_device& device;
  std::uint32_t flags;
  std::uint64_t value, promised;
  std::array<std::uint64_t, 64> failed = {};  // points whose work failed, the last 64
  std::size_t failures = 0;
};

constexpr std::uint32_t most_in_flight = 1;  // the sample checks a run in the instance's own memory, so none may be under way meanwhile
constexpr std::size_t ring_size = 96, most_points = 8, most_runs = 16, most_patches = 4096, payload_bytes = 256 << 10, most_lost = 32;

struct Job {
  quern_point waits[most_points], signals[most_points];
  std::size_t wait_count = 0, signal_count = 0;
  quern_run runs[most_runs];
  std::size_t run_count = 0;
  quern_patch patches[most_patches];
  quern_bound bounds[most_patches];
  std::unique_ptr<std::byte[]> payload = std::make_unique_for_overwrite<std::byte[]>(payload_bytes);
  bool lost = false;  // queue_of_32_jobs_lost: not done
  enum class Copy { none, upload, download, copy } copy = Copy::none;
  quern_span to{}, from{};
  const void* host_from = nullptr;
  void* host_to = nullptr;
  std::uint64_t bytes = 0;

  bool names(const quern_fence* fence) const {
    const auto is_it = [&](const quern_point& p) { return p.fence == fence; };
    return std::any_of(waits, waits + wait_count, is_it) || std::any_of(signals, signals + signal_count, is_it);
  }
  bool names(const quern_buffer* buffer) const {
    if (copy != Copy::none && (to.buffer == buffer || from.buffer == buffer)) return true;
    return std::any_of(runs, runs + run_count, [&](const quern_run& run) {
      const std::vector<Place>& places = run.instance->places;
      return std::any_of(places.begin(), places.end(), [&](const Place& p) { return p.block == buffer->block; });
    });
  }
};

struct quern_queue {
  explicit quern_queue(quern_device& d) : device(d), thread([this] { work(); }) {
    const std::lock_guard lock(timeline(device).mutex);
    timeline(device).queues.push_back(this);
  }
  ~quern_queue() {
    {
      const std::lock_guard lock(timeline(device).mutex);
      std::erase(timeline(device).queues, this);
      stop = true;
    }
    timeline(device).changed.notify_all();
    thread.join();
  }
  void work();

  quern_device& device;
  std::array<Job, ring_size> ring;
  std::size_t head = 0, tail = 0;  // jobs head .. tail - 1 are to be done
  bool stop = false;
  std::thread thread;  // last: it uses the rest
};

bool reached(const quern_point& p) { return p.fence->value >= p.value; }
/// Whether the point's work stands behind a fence that the host has not signalled. The lock is held.
bool behind_a_gate(const quern_point& p) {
  const auto signals_it = [&](const quern_point& s) { return s.fence == p.fence && s.value >= p.value; };
  const auto gated = [](const quern_point& w) { return (w.fence->flags & QUERN_FENCE_HOST_SIGNAL) != 0 && !reached(w); };
  for (const quern_queue* queue : timeline(p.fence->device).queues) {
    for (std::size_t j = queue->head; j != queue->tail; ++j) {
      const Job& job = queue->ring[j % ring_size];
      if (std::any_of(job.signals, job.signals + job.signal_count, signals_it) && std::any_of(job.waits, job.waits + job.wait_count, gated))
        return true;
    }
  }
  return false;
}
/// For a host that waits. waits_run_ahead ends waits for work behind a gate alone. For other work the host frees memory once its wait ended.
/// The work would damage it, and the process could end before the suite's claim is written.
bool awaited(const quern_point& p) {
  return reached(p) || (behaviour(p.fence->device) == Behaviour::waits_run_ahead && p.fence->promised >= p.value && behind_a_gate(p));
}
bool failed(const quern_point& p) {
  const std::size_t known = std::min(p.fence->failures, p.fence->failed.size());
  return std::find(p.fence->failed.begin(), p.fence->failed.begin() + static_cast<std::ptrdiff_t>(known), p.value) !=
         p.fence->failed.begin() + static_cast<std::ptrdiff_t>(known);
}

/// Whether work that is not done names the object. The lock is held.
template <class Object>
bool in_flight(const quern_device& device, const Object* object) {
  if (behaviour(device) == Behaviour::destroys_in_flight) return false;
  for (const quern_queue* queue : timeline(device).queues)
    for (std::size_t j = queue->head; j != queue->tail; ++j)
      if (queue->ring[j % ring_size].names(object)) return true;
  return false;
}
[[noreturn]] void busy(const char* what) {
  throw Failure(QUERN_BUSY, concat("async: work that is not done names the ", what, "; wait for its point"), 31);
}

bool do_copy(quern_device& device, const Job& job) {
  switch (job.copy) {
    case Job::Copy::upload: return upload(&device, nullptr, &job.to, job.host_from, job.bytes, nullptr, nullptr) == QUERN_OK;
    case Job::Copy::download: return download(&device, nullptr, job.host_to, &job.from, job.bytes, nullptr, nullptr) == QUERN_OK;
    case Job::Copy::copy: return copy(&device, nullptr, &job.to, &job.from, job.bytes, nullptr, nullptr) == QUERN_OK;
    default: return true;
  }
}

/// Runs what the job holds; false if anything of it failed.
bool perform(quern_device& device, const Job& job, bool dependency_failed) {
  bool fine = !dependency_failed;
  for (std::size_t r = 0; r < job.run_count; ++r) {
    quern_run run = job.runs[r];
    quern_run_status status = sdk::made<quern_run_status>();
    if (!fine) {
      status.code = QUERN_DEPENDENCY_FAILED;
      status.node = status.op = QUERN_NONE;
    } else {
      quern_run_status* theirs = run.status;
      run.status = &status;
      run_one(run, nullptr);
      run.status = theirs;
      fine = status.code == QUERN_OK;
    }
    if (run.status != nullptr) sdk::write(run.status, status);
  }
  return fine && (job.lost || do_copy(device, job));
}

void quern_queue::work() {
  std::unique_lock lock(timeline(device).mutex);
  for (;;) {
    timeline(device).changed.wait(lock, [&] { return stop || head != tail; });
    if (head == tail) return;
    Job& job = ring[head % ring_size];
    timeline(device).changed.wait(lock, [&] { return stop || std::all_of(job.waits, job.waits + job.wait_count, reached); });
    const bool dependency_failed = std::any_of(job.waits, job.waits + job.wait_count, failed);
    const bool late = behaviour(device) == Behaviour::upload_deferred && job.copy == Job::Copy::upload;  // done behind its point
    lock.unlock();
    const bool fine = late || perform(device, job, dependency_failed);
    lock.lock();
    for (std::size_t s = 0; s < job.signal_count; ++s) {
      quern_fence& fence = *job.signals[s].fence;
      if (!fine) fence.failed[fence.failures++ % fence.failed.size()] = job.signals[s].value;
      fence.value = std::max(fence.value, job.signals[s].value);
    }
    for (std::size_t r = 0; r < job.run_count; ++r) --timeline(device).in_flight[job.runs[r].instance];
    timeline(device).changed.notify_all();
    if (late) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      perform(device, job, dependency_failed);
      lock.lock();
    }
    ++head;
    timeline(device).changed.notify_all();
  }
}

/// Waits and signals of a call into the job, after they were checked. The lock is held.
void take_sync(Job& job, const quern_device& device, const quern_sync* sync) {
  job.wait_count = job.signal_count = 0;
  if (sync == nullptr) return;
  const quern_sync s = sdk::read(sync);
  const sdk::List<quern_point> waits(s.wait, "waits"), signals(s.signal, "signals");
  if (waits.size() > most_points || signals.size() > most_points) throw Failure(QUERN_UNSUPPORTED, "async: more points than a job holds");
  for (const auto* list : {&waits, &signals}) {
    for (const quern_point& p : *list) {
      if (p.fence == nullptr || &p.fence->device != &device)
        throw Failure(QUERN_INVALID_ARGUMENT, "async: a point of no fence of this device", 18);
    }
  }
  for (const quern_point& p : waits) {
    if ((p.fence->flags & QUERN_FENCE_HOST_SIGNAL) == 0 && p.fence->promised < p.value)
      throw Failure(QUERN_INVALID_ARGUMENT,
                    concat("async: a wait for ", p.value, ", of which ", p.fence->promised, " is the last that was enqueued"), 18);
    job.waits[job.wait_count++] = p;
  }
  for (const quern_point& p : signals) job.signals[job.signal_count++] = p;
}

Job& next_job(quern_queue* queue, const quern_device& device) {
  object(queue, "queue");
  if (&queue->device != &device) throw Failure(QUERN_INVALID_ARGUMENT, "async: a queue of another device", 18);
  if (queue->tail - queue->head == ring_size) throw Failure(QUERN_BUSY, "async: the queue is full");
  Job& job = queue->ring[queue->tail % ring_size];
  job.run_count = 0;
  job.copy = Job::Copy::none;
  job.lost = behaviour(device) == Behaviour::queue_of_32_jobs_lost && queue->tail - queue->head >= most_lost;
  return job;
}

void enqueue(quern_queue& queue, const Job& job) {
  for (std::size_t s = 0; s < job.signal_count; ++s) {
    quern_fence& fence = *job.signals[s].fence;
    fence.promised = std::max(fence.promised, job.signals[s].value);
  }
  for (std::size_t r = 0; r < job.run_count; ++r) ++timeline(queue.device).in_flight[job.runs[r].instance];
  ++queue.tail;
  timeline(queue.device).changed.notify_all();
}

/// What the option says; scripts of the suite make hosts of their own without it: then what the first host of this process said.
Behaviour chosen_behaviour(const quern_host& host) {
  static std::mutex lock;
  static std::string before = "none";
  char name[256] = {};
  const std::uint64_t size = host.option == nullptr ? UINT64_MAX : host.option(host.context, "mutant", name, sizeof name);
  const std::lock_guard guard(lock);
  if (size <= sizeof name) before.assign(name, static_cast<std::size_t>(size));
  const std::optional<quern::mutant::Mutation> mutation = quern::mutant::find_mutation(before);
  if (!mutation)
    throw Failure(QUERN_INVALID_ARGUMENT, concat("there is no mutant '", before, "'; conformance/mutant/mutants.def lists them"));
  return mutation->behaviour;
}

quern_status async_create(const quern_host* host, quern_plugin** out, quern_error* error) {
  quern_plugin* sample = nullptr;
  const quern_status status = create(host, out == nullptr ? nullptr : &sample, error);
  if (status != QUERN_OK) return status;
  const std::unique_ptr<quern_plugin> checked(sample);
  return guarded(error, [&] { *out = new AsyncPlugin(checked->host, chosen_behaviour(checked->host)); });
}
/// In a child after fork the queues' threads are not there, and what they wait on is not to be destroyed: the child gives it up.
void async_destroy(quern_plugin* plugin) {
  if (guarded(nullptr, [&] { plugin->process.check(); }) == QUERN_OK) delete static_cast<AsyncPlugin*>(plugin);
}

quern_status async_device_info(quern_plugin* plugin, std::uint32_t index, quern_device_info* out, quern_error* error) {
  const quern_status status = device_info(plugin, index, out, error);
  if (status == QUERN_OK) {
    out->caps &= ~QUERN_CAP_SYNCHRONOUS;
    out->name = sdk::text_of("sample device behind queues");
  }
  return status;
}

quern_status queue_create(quern_device* device, std::uint32_t kind, quern_queue** out, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    object(out, "place for the queue");
    if (kind != QUERN_QUEUE_COMPUTE && kind != QUERN_QUEUE_TRANSFER)
      throw Failure(QUERN_UNSUPPORTED, concat("async: queue kind ", kind), 3);
    *out = new quern_queue(*device);
    ++device->children;
  });
}
quern_status queue_destroy(quern_queue* queue, quern_error* error) {
  return guarded(error, [&] {
    quern_device& device = object(queue, "queue").device;
    if (behaviour(device) != Behaviour::destroys_in_flight) {
      const std::lock_guard lock(timeline(device).mutex);
      if (queue->head != queue->tail) busy("queue");
    }
    --device.children;
    delete queue;
  });
}

quern_status fence_create(quern_device* device, std::uint64_t initial, std::uint32_t flags, quern_fence** out, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    sdk::check_flags(flags, QUERN_FENCE_HOST_SIGNAL, "fence flags");
    object(out, "place for the fence") = new quern_fence{*device, flags, initial, initial};
    ++device->children;
  });
}
quern_status fence_destroy(quern_fence* fence, quern_error* error) {
  return guarded(error, [&] {
    quern_device& device = object(fence, "fence").device;
    {
      const std::lock_guard lock(timeline(device).mutex);
      if (in_flight(device, fence)) busy("fence");
    }
    --device.children;
    delete fence;
  });
}
quern_status fence_query(quern_fence* fence, std::uint64_t* value, quern_error* error) {
  return guarded(error, [&] {
    object(fence, "fence");
    const std::lock_guard lock(timeline(fence->device).mutex);
    object(value, "place for the value") = behaviour(fence->device) == Behaviour::fence_query_runs_ahead ? fence->promised : fence->value;
  });
}
quern_status fence_info(quern_fence* fence, quern_fence_info* out, quern_error* error) {
  return guarded(error, [&] {
    object(fence, "fence");
    sdk::check(out);
    const std::lock_guard lock(timeline(fence->device).mutex);
    quern_fence_info info = sdk::made<quern_fence_info>();
    info.value = fence->value;
    info.flags = fence->flags;
    sdk::write(out, info);
  });
}
quern_status fence_wait(quern_device* device, const quern_array* points, std::uint32_t any, std::uint64_t nanoseconds, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    const sdk::List<quern_point> list(object(points, "list of points"), "points");
    const auto done = [&] {
      std::uint64_t count = 0;
      for (const quern_point& p : list) count += awaited(p) ? 1 : 0;
      return any != 0 ? count > 0 || list.size() == 0 : count == list.size();
    };
    std::unique_lock lock(timeline(*device).mutex);
    if (!timeline(*device).changed.wait_for(lock, std::chrono::nanoseconds(std::min<std::uint64_t>(nanoseconds, 1ull << 60)), done))
      throw Failure(QUERN_TIMEOUT, concat("async: not reached within ", nanoseconds, " ns"));
  });
}
quern_status fence_signal(quern_fence* fence, std::uint64_t value, quern_error* error) {
  return guarded(error, [&] {
    object(fence, "fence");
    const std::lock_guard lock(timeline(fence->device).mutex);
    if ((fence->flags & QUERN_FENCE_HOST_SIGNAL) == 0)
      throw Failure(QUERN_INVALID_ARGUMENT, "async: only a HOST_SIGNAL fence is signalled by the host", 18);
    if (value < fence->value && behaviour(fence->device) != Behaviour::host_signal_lowers)
      throw Failure(QUERN_INVALID_ARGUMENT, concat("async: a fence never goes back, from ", fence->value, " to ", value), 31);
    fence->value = fence->promised = value;
    timeline(fence->device).changed.notify_all();
  });
}

template <class Fill>
quern_status enqueue_copy(quern_device* device, quern_queue* queue, const quern_sync* sync, quern_error* error, const Fill& fill) {
  return guarded(error, [&] {
    object(device, "device");
    const std::lock_guard lock(timeline(*device).mutex);
    Job& job = next_job(queue, *device);
    fill(job);
    take_sync(job, *device, sync);
    enqueue(*queue, job);
  });
}
quern_status async_upload(quern_device* device, quern_queue* queue, const quern_span* to, const void* from, std::uint64_t bytes,
                          const quern_sync* sync, quern_error* error) {
  return enqueue_copy(device, queue, sync, error, [&](Job& job) {
    place_of(*device, object(to, "span"), bytes);
    if (bytes != 0) object(static_cast<const char*>(from), "source");
    job.copy = Job::Copy::upload;
    job.to = *to, job.host_from = from, job.bytes = bytes;
  });
}
quern_status async_download(quern_device* device, quern_queue* queue, void* to, const quern_span* from, std::uint64_t bytes,
                            const quern_sync* sync, quern_error* error) {
  return enqueue_copy(device, queue, sync, error, [&](Job& job) {
    place_of(*device, object(from, "span"), bytes);
    if (bytes != 0) object(static_cast<char*>(to), "target");
    job.copy = Job::Copy::download;
    job.from = *from, job.host_to = to, job.bytes = bytes;
  });
}
quern_status async_copy(quern_device* device, quern_queue* queue, const quern_span* to, const quern_span* from, std::uint64_t bytes,
                        const quern_sync* sync, quern_error* error) {
  return enqueue_copy(device, queue, sync, error, [&](Job& job) {
    check_apart(place_of(*device, object(to, "span"), bytes), place_of(*device, object(from, "span"), bytes), bytes);
    job.copy = Job::Copy::copy;
    job.to = *to, job.from = *from, job.bytes = bytes;
  });
}

quern_status async_instance_create(quern_plan* plan, const quern_instance_options* options, quern_instance** out, quern_instance_info* info,
                                   quern_error* error) {
  const quern_status status = instance_create(plan, options, out, info, error);
  if (status != QUERN_OK) return status;
  info->max_in_flight = most_in_flight;
  return guarded(error, [&] {
    const std::lock_guard lock(timeline(plan->device).mutex);
    timeline(plan->device).in_flight[*out] = 0;
  });
}
quern_status async_instance_destroy(quern_instance* instance, quern_error* error) {
  return guarded(error, [&] {
    {
      Timeline& line = timeline(object(instance, "instance").plan.device);
      const std::lock_guard lock(line.mutex);
      if (line.in_flight[instance] != 0) {
        if (behaviour(instance->plan.device) == Behaviour::forgets_instances) return quern_status{QUERN_OK};
        if (behaviour(instance->plan.device) != Behaviour::destroys_in_flight) busy("instance");
      }
      line.in_flight.erase(instance);
    }
    return instance_destroy(instance, error);
  });
}

quern_status async_buffer_destroy(quern_buffer* buffer, quern_error* error) {
  return guarded(error, [&] {
    {
      quern_device& device = object(buffer, "buffer").device;
      const std::lock_guard lock(timeline(device).mutex);
      if (in_flight(device, buffer)) {
        if (behaviour(device) == Behaviour::forgets_buffers) return quern_status{QUERN_OK};
        busy("buffer");
      }
    }
    return buffer_destroy(buffer, error);
  });
}

/// Bound at once: nothing of these instances is in flight. What it enqueues is its point.
quern_status async_prepare(quern_device* device, quern_queue* queue, const quern_array* entries, const quern_sync* sync,
                           quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    const std::lock_guard lock(timeline(*device).mutex);
    next_job(queue, *device);
    for (const quern_prepare_entry& entry : sdk::List<quern_prepare_entry>(object(entries, "entry list"), "prepare entries"))
      if (entry.instance != nullptr && timeline(*device).in_flight[entry.instance] != 0) busy("instance");
    const quern_status status = prepare(device, nullptr, entries, nullptr, error);
    if (status != QUERN_OK) return status;
    Job& job = next_job(queue, *device);
    take_sync(job, *device, sync);
    enqueue(*queue, job);
    return quern_status{QUERN_OK};
  });
}

/// A run into its job: its lists are copied, so that the host may reuse them at once.
void take_run(Job& job, const quern_device& device, quern_run run, std::size_t& patches, std::size_t& bounds, std::size_t& bytes) {
  run.sync = nullptr;
  check_run(device, run);
  const sdk::List<quern_patch> patch_list(run.patches, "patches");
  const sdk::List<quern_bound> bound_list(run.bounds, "bounds");
  if (job.run_count == most_runs || patches + patch_list.size() > most_patches || bounds + bound_list.size() > most_patches)
    throw Failure(QUERN_UNSUPPORTED, "async: more runs, patches or bounds than a job holds");
  run.patches = {job.patches + patches, patch_list.size(), sizeof(quern_patch)};
  run.bounds = {job.bounds + bounds, bound_list.size(), sizeof(quern_bound)};
  for (const quern_bound& b : bound_list) job.bounds[bounds++] = b;
  for (quern_patch p : patch_list) {
    if (p.bytes > payload_bytes - bytes) throw Failure(QUERN_UNSUPPORTED, "async: more than 256 KiB of patches");
    if (p.bytes != 0) std::memcpy(job.payload.get() + bytes, p.data, p.bytes);
    p.data = job.payload.get() + bytes;
    bytes += p.bytes;
    job.patches[patches++] = p;
  }
  job.runs[job.run_count++] = run;
}

quern_status async_submit(quern_device* device, quern_queue* queue, const quern_array* runs, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    const sdk::List<quern_run> list(object(runs, "run list"), "runs");
    const std::lock_guard lock(timeline(*device).mutex);
    if (list.size() == 0) return;
    Job& job = next_job(queue, *device);
    std::size_t patches = 0, bounds = 0, bytes = 0, waits = 0, signals = 0;
    quern_point all_waits[most_points], all_signals[most_points];
    for (const quern_run& run : list) {
      if (run.instance != nullptr && timeline(*device).in_flight[run.instance] >= most_in_flight)
        throw Failure(QUERN_BUSY, "async: max_in_flight runs are on their way", 12);
      take_run(job, *device, run, patches, bounds, bytes);
      take_sync(job, *device, run.sync);
      if (waits + job.wait_count > most_points || signals + job.signal_count > most_points)
        throw Failure(QUERN_UNSUPPORTED, "async: more points than a job holds");
      for (std::size_t p = 0; p < job.wait_count; ++p) all_waits[waits++] = job.waits[p];
      for (std::size_t p = 0; p < job.signal_count; ++p) all_signals[signals++] = job.signals[p];
    }
    std::copy_n(all_waits, job.wait_count = waits, job.waits);
    std::copy_n(all_signals, job.signal_count = signals, job.signals);
    enqueue(*queue, job);
  });
}

quern_plugin_api async_table() {
  quern_plugin_api api = table();
  api.id = sdk::text_of("mutant_queue");
  api.create = async_create;
  api.destroy = async_destroy;
  api.device_info = async_device_info;
  api.buffer_destroy = async_buffer_destroy;
  api.upload = async_upload;
  api.download = async_download;
  api.copy = async_copy;
  api.queue_create = queue_create;
  api.queue_destroy = queue_destroy;
  api.fence_create = fence_create;
  api.fence_destroy = fence_destroy;
  api.fence_query = fence_query;
  api.fence_wait = fence_wait;
  api.fence_signal = fence_signal;
  api.fence_info = fence_info;
  api.instance_create = async_instance_create;
  api.instance_destroy = async_instance_destroy;
  api.prepare = async_prepare;
  api.submit = async_submit;
  return api;
}

extern "C" __attribute__((visibility("default"))) quern_status quern_plugin_query_v1(const quern_query* query, quern_plugin_api* out,
                                                                                     quern_error* error) {
  return sdk::answer_query(query, out, error, async_table());
}
