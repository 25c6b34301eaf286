// Queues and fences of a device whose work is enqueued. A queue is a ring of jobs: those that wait for points, then those that the driver
// has, in the order of their calls. No thread is needed: jobs go on whenever the host makes a call, and while it waits for a point.
//
// A Backend has a type Queue, an order of work at the driver, and its Device has make_queue() -> std::shared_ptr<Queue>. Of a Queue, with
// the device's order() held:
//   write, move, fill, pack    as a synchronous Device has them; each is enqueued, and the host's memory was read when it returns
//   read(to, Memory&, offset, bytes) -> const void*   enqueues a copy to the host; not null: to memory of its own, from where the bytes are
//     taken once they are there, and then landed(that memory)
//   mark() -> position         behind all that was enqueued; positions grow
//   reached(position)          whether all before it is done; asks, and does not wait. Throws Failure where the device is lost
//   hasten(position)           enqueues what the queue kept back of it
// and without that lock, from any thread:
//   wait(position, nanoseconds)   returns when it is reached, the time is over or the device is lost
// An Instance has start(run, Queue&), which enqueues and throws Failure where nothing of the run was, and finish(run, outcome), called once the
// position behind it was reached.
//
// Part of the plugin SDK; C++17, not part of the ABI.
#ifndef QUERN_SDK_WORK_QUEUE_HPP
#define QUERN_SDK_WORK_QUEUE_HPP

#include "quern/sdk/handles.hpp"
#include "quern/sdk/run_list.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <optional>

namespace quern {
namespace sdk {

inline constexpr std::size_t most_jobs = 128;                              // of a queue
inline constexpr std::size_t most_points = 8;                              // of a job: waits, and as many signals
inline constexpr std::size_t patch_room = 256 << 10, most_patches = 4096;  // of the jobs of a queue that wait

/// A fence of the device: values that its points have reached.
template <class Backend>
struct FenceOf {
  FenceOf(DeviceOf<Backend>& of, std::uint64_t initial, std::uint32_t given) : owner(of), flags(given), value(initial), promised(initial) {}
  bool host_signals() const noexcept { return (flags & QUERN_FENCE_HOST_SIGNAL) != 0; }
  bool failed_at(std::uint64_t point) const noexcept {
    const std::size_t known = failures < failed.size() ? failures : failed.size();
    for (std::size_t i = 0; i < known; ++i)
      if (failed[i] == point) return true;
    return false;
  }
  void reach(std::uint64_t point, bool has_failed) noexcept {
    if (has_failed) failed[failures++ % failed.size()] = point;
    if (value < point) value = point;
  }

  DeviceOf<Backend>& owner;
  std::uint32_t flags;
  std::uint64_t value, promised;
  std::array<std::uint64_t, 64> failed{};  // points whose work failed, the last ones
  std::size_t failures = 0;
};

/// The points of a call.
struct Points {
  std::array<quern_point, most_points> list{};
  std::size_t count = 0;
  const quern_point* begin() const noexcept { return list.data(); }
  const quern_point* end() const noexcept { return list.data() + count; }
};

template <class Buffer>
struct JobEnd {
  Buffer* buffer = nullptr;
  std::uint64_t offset = 0;
};

/// What one call asked, or one run of a submit.
template <class Backend>
struct Job {
  using Instance = typename HandlesOf<Backend>::Instance;
  using Buffer = typename HandlesOf<Backend>::Buffer;
  enum class Kind { nothing, upload, download, copy, fill, pack, run };

  Kind kind = Kind::nothing;
  Points waits, signals;
  JobEnd<Buffer> to, from;
  const void* source = nullptr;  // the host's end of a copy
  void* target = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t pattern = 0;
  std::optional<typename Backend::Layout> layout;
  Instance* instance = nullptr;
  quern_run run{};
  bool behind = false;           // it reads what the job before it writes, and fails with it
  quern_error* error = nullptr;  // of a host that waits in the call

  // From when it was started.
  bool failed = false, under_way = false;
  quern_run_status outcome{};
  std::uint64_t position = 0;
  const void* landing = nullptr;
};

template <class Backend>
struct QueueOf {
  QueueOf(DeviceOf<Backend>& of, std::shared_ptr<typename Backend::Queue> given) : owner(of), lane(std::move(given)), ring(most_jobs) {
    patches.reserve(most_patches);
    patch_bytes.reserve(patch_room);
  }
  Job<Backend>& at(std::uint64_t which) noexcept { return ring[which % most_jobs]; }
  bool has_room(std::uint64_t count) const noexcept { return tail - head + count <= most_jobs; }

  DeviceOf<Backend>& owner;
  std::shared_ptr<typename Backend::Queue> lane;
  std::vector<Job<Backend>> ring;
  std::uint64_t head = 0, started = 0, tail = 0;  // from head on they are not done, from started on they wait
  std::vector<quern_patch> patches;               // of runs that wait
  std::vector<std::byte> patch_bytes;
};

template <class Backend>
struct QueuedDeviceOf : DeviceOf<Backend> {
  using DeviceOf<Backend>::DeviceOf;
  std::vector<typename HandlesOf<Backend>::Queue*> queues;
  typename HandlesOf<Backend>::Queue* own = nullptr;  // of a host that makes none
  std::condition_variable changed;                    // with order(): the host signalled, or a job is done
  std::optional<Failure> lost;
};

template <class Backend>
struct QueuedInstanceOf : InstanceOf<Backend> {
  using InstanceOf<Backend>::InstanceOf;
  std::vector<typename HandlesOf<Backend>::Buffer*> bound;
  bool in_flight = false;
};

/// What goes on in the queues of a device. order() is held in all of it, but where a wait gives it up.
template <class Backend>
class Timeline {
  using Device = typename HandlesOf<Backend>::Device;
  using Queue = typename HandlesOf<Backend>::Queue;
  using Fence = typename HandlesOf<Backend>::Fence;
  using Buffer = typename HandlesOf<Backend>::Buffer;
  using Instance = typename HandlesOf<Backend>::Instance;
  using JobType = Job<Backend>;
  using Kind = typename JobType::Kind;

 public:
  using Lock = std::unique_lock<std::mutex>;
  using Clock = std::chrono::steady_clock;

  static bool reached(const quern_point& point) noexcept { return fence(point).value >= point.value; }

  /// Takes a call whose job is filled. One that waits for nothing is given to the driver now, and what that refuses of a copy is thrown:
  /// nothing was enqueued then. The lists of a run that has to wait are copied.
  static void enqueue(Device& device, Queue& queue, JobType&& given) {
    JobType& job = queue.at(queue.tail) = std::move(given);
    const bool now = queue.started == queue.tail && all_reached(job.waits);
    if (now) start(queue, job, queue.tail, /*throws=*/job.kind != Kind::run);
    else keep_patches(queue, job);
    for (const quern_point& p : job.signals)
      if (fence(p).promised < p.value) fence(p).promised = p.value;
    if (job.instance != nullptr) job.instance->in_flight = true;
    ++queue.tail;
    if (now) ++queue.started;
    device.changed.notify_all();
  }

  /// Starts what waits no more, and ends what is done.
  static void advance(Device& device) {
    for (bool again = true; again;) {
      again = false;
      for (Queue* queue : device.queues) again = advance(device, *queue) || again;
    }
  }
  /// The same in one queue. Whether there was anything.
  static bool advance(Device& device, Queue& queue) {
    const std::uint64_t before = queue.head + queue.started;
    while (queue.started != queue.tail && all_reached(queue.at(queue.started).waits)) {
      start(queue, queue.at(queue.started), queue.started, /*throws=*/false);
      ++queue.started;
    }
    while (queue.head != queue.started && is_over(device, queue, queue.at(queue.head))) {
      end(device, queue, queue.at(queue.head));
      ++queue.head;
    }
    if (queue.head + queue.started == before) return false;
    device.changed.notify_all();
    return true;
  }

  /// Whether work that is not done names it.
  template <class Named>
  static bool in_flight(const Device& device, const Named* object) {
    for (Queue* queue : device.queues)
      for (std::uint64_t j = queue->head; j != queue->tail; ++j)
        if (names(queue->at(j), object)) return true;
    return false;
  }

  /// Until `done()`, at most until then; whether it is. Gives the lock up while the device works.
  /// `points`: what is awaited, and whether one of them is enough.
  template <class List, class Done>
  static bool wait(Device& device, Lock& lock, const List& points, bool any, Clock::time_point until, const Done& done) {
    for (;;) {
      advance(device);
      if (device.lost) throw Failure(*device.lost);
      if (done()) return true;
      const Clock::time_point now = Clock::now();
      if (now >= until) return false;
      wait_a_while(device, lock, points, any, until, now);
    }
  }

  /// Until all that the queue has now is done, however long that takes. None of it waits for a point.
  static void drain(Device& device, Lock& lock, Queue& queue) {
    for (const std::uint64_t last = queue.tail;;) {
      advance(device);
      if (queue.head >= last) return;
      wait_for_job(lock, queue, last - 1, std::chrono::seconds(1));
    }
  }

  /// Makes all that was started come to its end without another call.
  static void hasten(Device& device) {
    for (Queue* queue : device.queues)
      if (queue->head != queue->started) queue->lane->hasten(queue->at(queue->started - 1).position);
  }

  /// Throws where the patches of a list of runs have no room while they wait.
  template <class Runs>
  static void require_patch_room(const Queue& queue, const Runs& runs) {
    std::uint64_t count = 0, bytes = 0;
    for (const quern_run& run : runs)
      for (const quern_patch& patch : List<quern_patch>(run.patches, "patches")) ++count, bytes += patch.bytes;
    if (count > most_patches || bytes > patch_room)
      throw Failure(QUERN_UNSUPPORTED,
                    concat(count, " patches of ", bytes, " bytes; a queue has room for ", most_patches, " of ", patch_room), 13);
    if (queue.started == queue.tail) return;
    if (count > most_patches - queue.patches.size() || bytes > patch_room - queue.patch_bytes.size())
      throw Failure(QUERN_BUSY, "the queue has no room for more patches until a run that waits is started", 31);
  }

 private:
  static constexpr std::chrono::nanoseconds slice = std::chrono::microseconds(200);  // where several queues may be the one

  static Fence& fence(const quern_point& point) noexcept { return *static_cast<Fence*>(point.fence); }
  static bool all_reached(const Points& points) noexcept {
    for (const quern_point& p : points)
      if (!reached(p)) return false;
    return true;
  }

  static bool names(const JobType& job, const Fence* object) noexcept {
    for (const Points* points : {&job.waits, &job.signals})
      for (const quern_point& p : *points)
        if (p.fence == object) return true;
    return false;
  }
  static bool names(const JobType& job, const Buffer* object) noexcept {
    if (job.to.buffer == object || job.from.buffer == object) return true;
    if (job.instance == nullptr) return false;
    for (const Buffer* bound : job.instance->bound)
      if (bound == object) return true;
    return false;
  }

  static void keep_patches(Queue& queue, JobType& job) {
    if (queue.started == queue.tail) {  // none waits before it
      queue.patches.clear();
      queue.patch_bytes.clear();
    }
    if (job.kind != Kind::run) return;
    const List<quern_patch> list(job.run.patches, "patches");
    const std::size_t first = queue.patches.size();
    for (quern_patch patch : list) {
      const auto* data = static_cast<const std::byte*>(patch.data);
      patch.data = queue.patch_bytes.data() + queue.patch_bytes.size();
      if (patch.bytes > 0) queue.patch_bytes.insert(queue.patch_bytes.end(), data, data + patch.bytes);
      queue.patches.push_back(patch);
    }
    job.run.patches = {queue.patches.data() + first, list.size(), sizeof(quern_patch)};
  }

  static void start(Queue& queue, JobType& job, std::uint64_t which, bool throws) {
    job.failed = job.behind && which > 0 && queue.at(which - 1).failed;
    for (const quern_point& p : job.waits) job.failed = job.failed || fence(p).failed_at(p.value);
    if (job.kind == Kind::run) start_run(queue, job);
    else if (!job.failed) {
      try {
        start_copy(queue, job);
      } catch (const std::exception&) {
        if (throws) throw;
        job.failed = true;
      }
    }
    try {
      job.position = queue.lane->mark();
    } catch (const Failure& failure) { static_cast<Device&>(queue.owner).lost = failure; }
  }

  static void start_run(Queue& queue, JobType& job) {
    job.outcome = made<quern_run_status>();
    job.outcome.node = job.outcome.op = QUERN_NONE;
    if (job.failed) {
      job.outcome.code = QUERN_DEPENDENCY_FAILED;
    } else {
      job.under_way = told(job.instance->instance, job.outcome, job.error, [&] { job.instance->instance.start(job.run, *queue.lane); });
      job.failed = !job.under_way;
    }
    job.run.patches = {};
  }

  static void start_copy(Queue& queue, JobType& job) {
    typename Backend::Queue& lane = *queue.lane;
    switch (job.kind) {
      case Kind::upload: return lane.write(job.to.buffer->memory, job.to.offset, job.source, job.bytes);
      case Kind::download: job.landing = lane.read(job.target, job.from.buffer->memory, job.from.offset, job.bytes); return;
      case Kind::copy: return lane.move(job.to.buffer->memory, job.to.offset, job.from.buffer->memory, job.from.offset, job.bytes);
      case Kind::fill: return lane.fill(job.to.buffer->memory, job.to.offset, job.pattern, job.bytes);
      case Kind::pack: return lane.pack(*job.layout, job.from.buffer->memory, job.from.offset, job.to.buffer->memory, job.to.offset);
      default: return;
    }
  }

  static bool is_over(Device& device, Queue& queue, const JobType& job) {
    if (device.lost) return true;
    try {
      return queue.lane->reached(job.position);
    } catch (const Failure& failure) {
      device.lost = failure;
      return true;
    }
  }

  static void end(Device& device, Queue& queue, JobType& job) {
    if (job.landing != nullptr) {
      if (!device.lost) std::memcpy(job.target, job.landing, job.bytes);
      queue.lane->landed(job.landing);
    }
    if (device.lost) job.failed = true;
    if (job.kind == Kind::run) end_run(device, job);
    for (const quern_point& p : job.signals) fence(p).reach(p.value, job.failed);
  }

  static void end_run(const Device& device, JobType& job) {
    if (job.under_way) {
      const bool fine = told(job.instance->instance, job.outcome, job.error, [&] {
        if (device.lost) throw Failure(*device.lost);
        job.instance->instance.finish(job.run, job.outcome);
      });
      job.failed = !fine || job.outcome.code != QUERN_OK;
    }
    job.instance->in_flight = false;
    if (job.run.status != nullptr) write(job.run.status, job.outcome);
  }

  /// Unlocked, until a job that the driver has is done, at most for so long.
  static void wait_for_job(Lock& lock, Queue& queue, std::uint64_t which, std::chrono::nanoseconds longest) {
    const std::shared_ptr<typename Backend::Queue> lane = queue.lane;  // it may end meanwhile: another thread saw the work done
    const std::uint64_t position = queue.at(which).position;
    lane->hasten(position);
    lock.unlock();
    lane->wait(position, static_cast<std::uint64_t>(longest.count()));
    lock.lock();
  }

  template <class List>
  static void wait_a_while(Device& device, Lock& lock, const List& points, bool any, Clock::time_point until, Clock::time_point now) {
    const std::chrono::nanoseconds left = until - now;
    for (const quern_point& p : points) {
      if (reached(p)) continue;
      for (Queue* queue : device.queues)
        for (std::uint64_t j = queue->head; j != queue->started; ++j)
          for (const quern_point& s : queue->at(j).signals)
            if (s.fence == p.fence && s.value >= p.value) return wait_for_job(lock, *queue, j, any ? std::min(left, slice) : left);
    }
    // What is awaited stands behind other work, or behind a signal of the host.
    for (Queue* queue : device.queues)
      if (queue->head != queue->started) return wait_for_job(lock, *queue, queue->head, std::min(left, slice));
    device.changed.wait_until(lock, until);
  }
};

}  // namespace sdk
}  // namespace quern

/// Defines the handles for a Backend with memory and queues of its own.
#define QUERN_PLUGIN_HANDLES_WITH_QUEUES(...) \
  struct quern_plugin : quern::sdk::PluginOf<__VA_ARGS__> { \
    using PluginOf::PluginOf; \
  }; \
  struct quern_fence : quern::sdk::FenceOf<__VA_ARGS__> { \
    using FenceOf::FenceOf; \
  }; \
  struct quern_device : quern::sdk::QueuedDeviceOf<__VA_ARGS__> { \
    using QueuedDeviceOf::QueuedDeviceOf; \
  }; \
  struct quern_queue : quern::sdk::QueueOf<__VA_ARGS__> { \
    using QueueOf::QueueOf; \
  }; \
  struct quern_plan : quern::sdk::PlanOf<__VA_ARGS__> { \
    using PlanOf::PlanOf; \
  }; \
  struct quern_instance : quern::sdk::QueuedInstanceOf<__VA_ARGS__> { \
    using QueuedInstanceOf::QueuedInstanceOf; \
  }; \
  struct quern_buffer : quern::sdk::BufferOf<__VA_ARGS__> { \
    using BufferOf::BufferOf; \
  }

#endif
