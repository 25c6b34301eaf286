// The buffered device behind queues: the CPU backend's ops in memory of its own, without QUERN_CAP_SYNCHRONOUS, so that whole models run on
// queues and fences. Fresh memory is NaN. A host that destroys what is in flight ends the process.
// QUERN_TEST_FAULT=fence_wait:hang leaves a run in its queue for ever, so that no fence behind it is signalled (test_fault.hpp).
// A queue that is made while QUERN_TEST_STEPS is set ("5,7") does nothing before it is waited for, nor beyond that point. It puts an s into pipe 5 for
// each submit and a b as a run begins, which then takes a byte from pipe 7 first.
// While QUERN_TEST_PACKS is set ("5"), weights are packed, as the CPU backend packs them. A queue that is made then does nothing before it is waited
// for. A p goes into pipe 5 for each weight, and a w for each wait.
// While QUERN_TEST_DEAF is set, no run hears of a cancel, as none on a card does.
// While QUERN_TEST_FAIL_FOLLOWERS is set, runs of all instances of a plan but its first fail. QUERN_TEST_REFUSED_OP is the id of an op that
// the device does not have.
#include "base_plugin.hpp"

#undef QUERN_PLUGIN_NOTE
#undef QUERN_PLUGIN_ENTRY
#define QUERN_PLUGIN_NOTE(...) static_assert(true)
#define QUERN_PLUGIN_ENTRY(...)
#include "buffered_plugin.cpp"
#include "test_fault.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

struct quern_fence {
  std::uint64_t value, promised, wanted;  // wanted: what was waited for
};

struct quern_instance {
  quern_instance* under;
  bool follower;
  std::atomic<std::uint32_t> in_flight{0};
  std::atomic<bool> cancelled{false};
  std::vector<const void*> buffers;  // that it is bound to
};

namespace {

using quern::sdk::Failure;

constexpr std::size_t most_jobs = 64;

std::mutex mutex;
std::condition_variable& changed = *new std::condition_variable;  // never destroyed: a run that hangs waits for it still at the end
std::map<quern_plan*, std::uint32_t> instances_of;

struct Job {
  std::vector<quern_point> waits, signals;
  std::vector<const void*> named;  // buffers, fences and instances
  std::function<void()> work;
};

}  // namespace

/// The pipe of QUERN_TEST_PACKS; -1: none.
int packs() {
  const char* pipe = std::getenv("QUERN_TEST_PACKS");
  return pipe == nullptr ? -1 : std::atoi(pipe);
}
void tell_packs(char event) {
  if (packs() >= 0 && ::write(packs(), &event, 1) != 1 && errno != EBADF) std::abort();  // a process that probes has no pipe
}

/// What QUERN_TEST_STEPS names.
struct Steps {
  int told = -1, allowed = -1;
  Steps() {
    if (const char* pipes = std::getenv("QUERN_TEST_STEPS")) std::sscanf(pipes, "%d,%d", &told, &allowed);
  }
  bool watched() const { return told >= 0; }
  void tell(char event) const {
    if (watched() && ::write(told, &event, 1) != 1) std::abort();
  }
  void begin_run() const {
    char byte = 0;
    tell('b');
    if (watched() && ::read(allowed, &byte, 1) != 1) std::abort();
  }
};

struct quern_queue {
  std::deque<Job> jobs;
  bool stop = false;
  const Steps steps;
  const bool lazy = steps.watched() || packs() >= 0;
  std::thread thread{[this] { work(); }};

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stop || !jobs.empty(); });
      if (jobs.empty()) return;
      Job& job = jobs.front();
      changed.wait(lock, [&] { return std::ranges::all_of(job.waits, [](const quern_point& p) { return p.fence->value >= p.value; }); });
      const auto wanted = [&] { return std::ranges::any_of(job.signals, [](const quern_point& p) { return p.fence->wanted >= p.value; }); };
      if (lazy) changed.wait(lock, wanted);
      lock.unlock();
      job.work();
      lock.lock();
      for (const quern_point& p : job.signals) p.fence->value = std::max(p.fence->value, p.value);
      jobs.pop_front();
      changed.notify_all();
    }
  }
};

namespace {

std::vector<quern_queue*> queues;

/// The lock is held.
void require_idle(const void* object) {
  for (const quern_queue* queue : queues)
    for (const Job& job : queue->jobs)
      if (std::ranges::find(job.named, object) != job.named.end()) std::abort();
}

void enqueue(quern_queue* queue, const quern_sync* sync, Job job) {
  if (queue == nullptr) throw Failure(QUERN_INVALID_ARGUMENT, "queued: no queue was given; this device is not synchronous", 31);
  const std::scoped_lock lock(mutex);
  if (queue->jobs.size() == most_jobs) throw Failure(QUERN_BUSY, "queued: the queue is full", 31);
  if (sync != nullptr) {
    const quern_sync points = quern::sdk::read(sync);
    for (const quern_point& p : List<quern_point>(points.wait, "waits")) {
      if (p.fence->promised < p.value) throw Failure(QUERN_INVALID_ARGUMENT, "queued: a wait for what was never enqueued", 18);
      job.waits.push_back(p);
      job.named.push_back(p.fence);
    }
    for (const quern_point& p : List<quern_point>(points.signal, "signals")) {
      job.signals.push_back(p);
      job.named.push_back(p.fence);
    }
  }
  for (const quern_point& p : job.signals) p.fence->promised = std::max(p.fence->promised, p.value);
  queue->jobs.push_back(std::move(job));
  changed.notify_all();
}

quern_status queued_info(quern_plugin* plugin, std::uint32_t index, quern_device_info* out, quern_error* error) {
  const quern_status status = device_info(plugin, index, out, error);
  out->caps &= ~QUERN_CAP_SYNCHRONOUS;
  return status;
}

quern_status queue_create(quern_device*, std::uint32_t, quern_queue** out, quern_error* error) {
  return guarded(error, [&] {
    *out = new quern_queue;
    const std::scoped_lock lock(mutex);
    queues.push_back(*out);
  });
}
quern_status queue_destroy(quern_queue* queue, quern_error*) {
  {
    const std::scoped_lock lock(mutex);
    if (!queue->jobs.empty()) std::abort();
    std::erase(queues, queue);
    queue->stop = true;
    changed.notify_all();
  }
  queue->thread.join();
  delete queue;
  return QUERN_OK;
}

quern_status fence_create(quern_device*, std::uint64_t initial, std::uint32_t, quern_fence** out, quern_error* error) {
  return guarded(error, [&] { *out = new quern_fence{initial, initial, 0}; });
}
quern_status fence_destroy(quern_fence* fence, quern_error*) {
  const std::scoped_lock lock(mutex);
  require_idle(fence);
  delete fence;
  return QUERN_OK;
}
quern_status fence_query(quern_fence* fence, std::uint64_t* value, quern_error*) {
  const std::scoped_lock lock(mutex);
  *value = fence->value;
  return QUERN_OK;
}
quern_status fence_wait(quern_device*, const quern_array* points, std::uint32_t, std::uint64_t nanoseconds, quern_error* error) {
  return guarded(error, [&] {
    tell_packs('w');
    std::unique_lock lock(mutex);
    const bool hangs = std::getenv("QUERN_TEST_FAULT") != nullptr;
    for (const quern_point& p : List<quern_point>(*points, "points")) {
      const auto reached = [&] { return p.fence->value >= p.value; };
      p.fence->wanted = std::max(p.fence->wanted, p.value);
      changed.notify_all();
      if (hangs && !reached()) {  // the test's clock may stand still, and time-outs with it
        lock.unlock();
        ::usleep(1000);
        lock.lock();
      }
      if (hangs ? !reached() : !changed.wait_for(lock, std::chrono::nanoseconds(nanoseconds), reached))
        throw Failure(QUERN_TIMEOUT, "queued: not reached yet");
    }
  });
}

quern_status queued_buffer_create(quern_device* device, const quern_buffer_options* options, std::uint64_t bytes, quern_buffer** out,
                                  quern_error* error) {
  const quern_status status = buffer_create(device, options, bytes, out, error);
  if (status == QUERN_OK) std::memset((*out)->lines.data(), 0xff, (*out)->lines.size() * sizeof(quern_buffer::Line));
  return status;
}
quern_status queued_buffer_destroy(quern_buffer* buffer, quern_error* error) {
  {
    const std::scoped_lock lock(mutex);
    require_idle(buffer);
  }
  return buffer_destroy(buffer, error);
}

quern_status queued_upload(quern_device* device, quern_queue* queue, const quern_span* to, const void* from, std::uint64_t bytes,
                           const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    enqueue(queue, sync, {{}, {}, {to->buffer}, [=, target = *to] { upload(device, nullptr, &target, from, bytes, nullptr, nullptr); }});
  });
}
quern_status queued_download(quern_device* device, quern_queue* queue, void* to, const quern_span* from, std::uint64_t bytes,
                             const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    enqueue(queue, sync,
            {{}, {}, {from->buffer}, [=, source = *from] { download(device, nullptr, to, &source, bytes, nullptr, nullptr); }});
  });
}
quern_status queued_copy(quern_device*, quern_queue* queue, const quern_span* to, const quern_span* from, std::uint64_t bytes,
                         const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    enqueue(queue, sync,
            {{}, {}, {to->buffer, from->buffer}, [=, target = *to, source = *from] { std::memcpy(at(target), at(source), bytes); }});
  });
}

quern_status queued_fill(quern_device*, quern_queue* queue, const quern_span* to, std::uint32_t pattern, std::uint64_t bytes,
                         const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    if (bytes % 4 != 0 || to->offset % 4 != 0) throw Failure(QUERN_INVALID_ARGUMENT, "queued: fill writes whole 4-byte words");
    enqueue(queue, sync,
            {{}, {}, {to->buffer}, [=, target = *to] { std::fill_n(reinterpret_cast<std::uint32_t*>(at(target)), bytes / 4, pattern); }});
  });
}

quern_status queued_weights_plan(quern_device* device, const quern_array* graphs, std::uint64_t flags, quern_array* items,
                                 quern_error* error) {
  if (packs() >= 0) return base.weights_plan(device, graphs, flags, items, error);
  *items = {};
  return QUERN_OK;
}
quern_status queued_weights_pack(quern_device* device, quern_queue* queue, const quern_weight_item* item, const quern_array* sources,
                                 const quern_array* destinations, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    const quern_span from = List<quern_span>(*sources, "sources")[0], to = List<quern_span>(*destinations, "destinations")[0];
    enqueue(queue, sync, {{}, {}, {from.buffer, to.buffer}, [=] {
                            const quern_span source = on_host(from), target = on_host(to);
                            const quern_array one{&source, 1, sizeof source}, other{&target, 1, sizeof target};
                            if (base.weights_pack(device, nullptr, item, &one, &other, nullptr, nullptr) != QUERN_OK) std::abort();
                          }});
    tell_packs('p');
  });
}

quern_status queued_support(quern_device* device, const quern_graph* graph, const quern_support_options* options, quern_answer* answers,
                            quern_error* error) {
  const quern_status status = base.support(device, graph, options, answers, error);
  const char* refused = std::getenv("QUERN_TEST_REFUSED_OP");
  if (status != QUERN_OK || refused == nullptr) return status;
  return guarded(error, [&] {
    std::size_t i = 0;
    for (const quern_node& node : List<quern_node>(graph->nodes, "nodes"))
      if (quern_answer& answer = answers[i++]; node.op == static_cast<std::uint32_t>(std::atoi(refused)))
        answer.verdict = QUERN_ANSWER_NO, answer.text = quern::sdk::text_of("queued: left out by the test");
  });
}

quern_status instance_create(quern_plan* plan, const quern_instance_options* options, quern_instance** out, quern_instance_info* info,
                             quern_error* error) {
  quern_instance* under = nullptr;
  const quern_status status = base.instance_create(plan, options, &under, info, error);
  if (status != QUERN_OK) return status;
  const std::scoped_lock lock(mutex);
  *out = new quern_instance{under, instances_of[plan]++ > 0, {}, {}, {}};
  return status;
}
quern_status instance_destroy(quern_instance* instance, quern_error* error) {
  {
    const std::scoped_lock lock(mutex);
    require_idle(instance);
  }
  const quern_status status = base.instance_destroy(instance->under, error);
  delete instance;
  return status;
}
quern_status plan_destroy(quern_plan* plan, quern_error* error) {
  {
    const std::scoped_lock lock(mutex);
    instances_of.erase(plan);
  }
  return base.plan_destroy(plan, error);
}
quern_status counters(quern_instance* instance, quern_counters* out, quern_error* error) {
  return base.counters(instance->under, out, error);
}
/// Also of a run that waits in its queue: the CPU backend forgets a cancel at its submit.
quern_status run_cancel(quern_instance* instance, quern_error* error) {
  if (std::getenv("QUERN_TEST_DEAF") != nullptr) return QUERN_OK;
  if (instance->in_flight > 0) instance->cancelled = true;
  return base.run_cancel(instance->under, error);
}

quern_status queued_prepare(quern_device* device, quern_queue* queue, const quern_array* entries, const quern_sync* sync,
                            quern_error* error) {
  return guarded(error, [&] {
    for (quern_prepare_entry entry : List<quern_prepare_entry>(*entries, "entries")) {
      quern_instance& instance = *entry.instance;
      {
        const std::scoped_lock lock(mutex);
        require_idle(&instance);
      }
      instance.buffers = {&instance, entry.scratch.buffer};
      for (const quern_binding& binding : List<quern_binding>(entry.bindings, "bindings"))
        for (const quern_span& span : List<quern_span>(binding.spans, "spans")) instance.buffers.push_back(span.buffer);
      entry.instance = instance.under;
      const quern_array one{&entry, 1, sizeof entry};
      if (const quern_status status = prepare(device, nullptr, &one, nullptr, error); status != QUERN_OK)
        throw Failure(status, "queued: the CPU backend refused it");
    }
    enqueue(queue, sync, {{}, {}, {}, [] {}});
  });
}

void run_now(quern_device* device, quern_run run, const std::vector<quern_bound>& bounds, bool& fine, bool fails) {
  quern_instance& instance = *run.instance;
  quern_run_status* const status = run.status;
  run.instance = instance.under;
  run.bounds = {bounds.data(), bounds.size(), sizeof(quern_bound)};
  run.sync = nullptr;
  if (!fine) status->code = QUERN_DEPENDENCY_FAILED;
  else if (fails) status->code = QUERN_INTERNAL;
  else if (instance.cancelled.exchange(false)) status->code = QUERN_CANCELLED;
  else {
    const quern_array one{&run, 1, sizeof run};
    if (const quern_status code = base.submit(device, nullptr, &one, nullptr); code != QUERN_OK) status->code = code;
    instance.cancelled = false;
  }
  fine = status->code == QUERN_OK;
  --instance.in_flight;
}

quern_status queued_submit(quern_device* device, quern_queue* queue, const quern_array* runs, quern_error* error) {
  return guarded(error, [&] {
    struct Taken {
      quern_run run;
      std::vector<quern_bound> bounds;
      bool fails;
    };
    const bool fail_followers = std::getenv("QUERN_TEST_FAIL_FOLLOWERS") != nullptr;
    std::vector<Taken> list;
    Job job;
    const quern_sync* sync = nullptr;
    for (const quern_run& run : List<quern_run>(*runs, "runs")) {
      if (run.instance->in_flight > 0) throw Failure(QUERN_BUSY, "queued: a run of the instance is in flight", 12);
      Taken taken{run, {}, fail_followers && run.instance->follower};
      for (const quern_bound& bound : List<quern_bound>(run.bounds, "bounds")) taken.bounds.push_back(bound);
      job.named.insert(job.named.end(), run.instance->buffers.begin(), run.instance->buffers.end());
      list.push_back(std::move(taken));
      if (run.sync != nullptr) sync = run.sync;
    }
    for (const Taken& taken : list) ++taken.run.instance->in_flight;
    if (queue != nullptr) queue->steps.tell('s');
    job.work = [device, list, queue] {
      quern::test::fail_in("fence_wait");
      queue->steps.begin_run();
      bool fine = true;
      for (const Taken& taken : list) run_now(device, taken.run, taken.bounds, fine, taken.fails);
    };
    try {
      enqueue(queue, sync, std::move(job));
    } catch (...) {
      for (const Taken& taken : list) --taken.run.instance->in_flight;
      throw;
    }
  });
}

const quern_plugin_api& queued_table() noexcept {
  static const quern_plugin_api api = [] {
    quern_plugin_api made = table();
    made.id = quern::sdk::text_of("queued");
    made.device_info = queued_info;
    made.buffer_create = queued_buffer_create;
    made.buffer_destroy = queued_buffer_destroy;
    made.queue_create = queue_create;
    made.queue_destroy = queue_destroy;
    made.fence_create = fence_create;
    made.fence_destroy = fence_destroy;
    made.fence_query = fence_query;
    made.fence_wait = fence_wait;
    made.upload = queued_upload;
    made.download = queued_download;
    made.copy = queued_copy;
    made.fill = queued_fill;
    made.support = queued_support;
    made.weights_plan = queued_weights_plan;
    made.weights_pack = queued_weights_pack;
    made.weights_release = base.weights_release;
    made.instance_create = instance_create;
    made.instance_destroy = instance_destroy;
    made.plan_destroy = plan_destroy;
    made.counters = counters;
    made.run_cancel = run_cancel;
    made.prepare = queued_prepare;
    made.submit = queued_submit;
    return made;
  }();
  return api;
}

}  // namespace

extern "C" __attribute__((used, section(QUERN_NOTE_SECTION))) constexpr auto quern_queued_note =
    quern::sdk::make_note("queued", "1.0", QUERN_DEVICE_CPU, 0, "");
extern "C" __attribute__((visibility("default"))) quern_status quern_plugin_query_v1(const quern_query* query, quern_plugin_api* out,
                                                                                     quern_error* error) {
  return quern::sdk::answer_query(query, out, error, queued_table());
}
