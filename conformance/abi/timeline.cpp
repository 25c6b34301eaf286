// Queues and fences [C18]: order, waits, time-outs, what the host signals, failed dependencies. On a SYNCHRONOUS device the host has
// these, and what must hold is that the plugin never takes a fence for done.
#include "abi/scripts.hpp"
#include "abi/simple.hpp"

#include <chrono>
#include <thread>

namespace quern::conformance::abi {
namespace {

using Clock = std::chrono::steady_clock;

void require_queues(ScriptContext& t) {
  if (DeviceRef(t.device()).synchronous()) t.waive("QUERN_CAP_SYNCHRONOUS", "the host supplies queues and fences");
}

class Fence {
 public:
  Fence(DeviceRef device, std::uint64_t initial, std::uint32_t flags = 0) : device_(device) {
    AbiError error;
    error.check(device.api().fence_create(device.handle(), initial, flags, &fence_, error.get()), "fence_create");
  }
  ~Fence() { device_.api().fence_destroy(fence_, nullptr); }
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;
  quern_fence* get() const noexcept { return fence_; }
  std::uint64_t value() const {
    std::uint64_t value = 0;
    AbiError error;
    error.check(device_.api().fence_query(fence_, &value, error.get()), "fence_query");
    return value;
  }
  quern_point at(std::uint64_t value) const noexcept { return {fence_, value}; }

 private:
  DeviceRef device_;
  quern_fence* fence_ = nullptr;
};

class RawQueue {
 public:
  explicit RawQueue(DeviceRef device, std::uint32_t kind = QUERN_QUEUE_COMPUTE) : device_(device) {
    AbiError error;
    error.check(device.api().queue_create(device.handle(), kind, &queue_, error.get()), "queue_create");
  }
  ~RawQueue() { device_.api().queue_destroy(queue_, nullptr); }
  RawQueue(const RawQueue&) = delete;
  RawQueue& operator=(const RawQueue&) = delete;
  quern_queue* get() const noexcept { return queue_; }

 private:
  DeviceRef device_;
  quern_queue* queue_ = nullptr;
};

quern_status wait(DeviceRef device, const std::vector<quern_point>& points, bool any, std::uint64_t nanoseconds) {
  const quern_array list = array_of(points);
  return device.api().fence_wait(device.handle(), &list, any ? 1 : 0, nanoseconds, nullptr);
}
constexpr std::uint64_t seconds(double s) { return static_cast<std::uint64_t>(s * 1e9); }

/// Enqueues one run on a queue behind `after`, signalling `then`.
quern_status enqueue(DeviceRef device, const RawQueue& queue, quern_run run, const std::vector<quern_point>& after,
                     const std::vector<quern_point>& then, quern_error* error = nullptr) {
  quern_sync sync = made<quern_sync>(QUERN_TYPE_SYNC);
  sync.wait = array_of(after);
  sync.signal = array_of(then);
  run.sync = &sync;
  const quern_array runs{&run, 1, sizeof run};
  return device.api().submit(device.handle(), queue.get(), &runs, error);
}

void synchronous_devices_have_no_fences(ScriptContext& t) {
  const DeviceRef device = t.device();
  if (!device.synchronous()) t.waive("no QUERN_CAP_SYNCHRONOUS", "the device has queues and fences");
  Queue queue(device);
  OneCopy one(device, queue);
  int word = 0;
  const quern_point point{reinterpret_cast<quern_fence*>(&word), 1};
  for (const bool waits : {true, false}) {
    quern_sync sync = made<quern_sync>(QUERN_TYPE_SYNC);
    (waits ? sync.wait : sync.signal) = {&point, 1, sizeof point};
    quern_run run = one.ready.run();
    run.sync = &sync;
    const quern_array runs{&run, 1, sizeof run};
    AbiError error;
    check_refused(t, device.api().submit(device.handle(), nullptr, &runs, error.get()), error,
                  {QUERN_INVALID_ARGUMENT, QUERN_UNSUPPORTED},
                  std::string("a run with ") + (waits ? "waits" : "signals") + " is refused by a synchronous device [C18]");
    if (device.api().upload == nullptr) continue;
    const float data[4] = {};
    const quern_span to = one.at_x.span();
    AbiError copy_error;
    check_refused(t, device.api().upload(device.handle(), nullptr, &to, data, 16, &sync, copy_error.get()), copy_error,
                  {QUERN_INVALID_ARGUMENT, QUERN_UNSUPPORTED}, "an upload with fences is refused by a synchronous device [C18]");
  }
  const quern_run run = one.ready.run();
  const quern_array runs{&run, 1, sizeof run};
  AbiError error;
  check_refused(t, device.api().submit(device.handle(), reinterpret_cast<quern_queue*>(&word), &runs, error.get()), error,
                {QUERN_INVALID_ARGUMENT, QUERN_UNSUPPORTED}, "a run on a queue is refused by a synchronous device [C18]");
  t.check(one.at_y.read() == std::vector<float>(4, -1) && one.at_x.read() == counting(4, 1), "and nothing is done [C18]");
  t.check(device.api().submit(device.handle(), nullptr, &runs, nullptr) == QUERN_OK && one.at_y.read() == counting(4, 1),
          "when submit returns, the run is done [C18]");
}

void fences_have_values(ScriptContext& t) {
  require_queues(t);
  const DeviceRef device = t.device();
  for (const std::uint64_t initial : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{1} << 40}) {
    const Fence fence(device, initial);
    t.check(fence.value() == initial, "a fence starts at its initial value [C18]");
    t.check(wait(device, {fence.at(initial)}, false, 0) == QUERN_OK, "a value that is reached needs no wait [C18]");
    if (device.api().fence_info == nullptr) continue;
    quern_fence_info info = made<quern_fence_info>(QUERN_TYPE_FENCE_INFO);
    AbiError error;
    error.check(device.api().fence_info(fence.get(), &info, error.get()), "fence_info");
    t.check(info.value == initial && info.flags == 0 && (info.poll_word == nullptr || *info.poll_word >= initial),
            "fence_info says the same [C18]");
  }
  quern_fence* none = nullptr;
  t.check(device.api().fence_create(device.handle(), 0, 1u << 20, &none, nullptr) == QUERN_UNSUPPORTED,
          "an unknown flag of fence_create is refused [C3]");
}

void waits_time_out(ScriptContext& t) {
  require_queues(t);
  const DeviceRef device = t.device();
  const Fence fence(device, 0, QUERN_FENCE_HOST_SIGNAL);
  for (const double duration : {0.0, 0.02, 0.1}) {
    const auto start = Clock::now();
    const quern_status status = wait(device, {fence.at(1)}, false, seconds(duration));
    const double waited = std::chrono::duration<double>(Clock::now() - start).count();
    t.check(status == QUERN_TIMEOUT, "a wait for what does not come times out [C18]");
    t.check(waited >= duration * 0.9 && waited < duration + 5, "after the time that was given [C18]");
  }
}

void waits_for_all_and_any(ScriptContext& t) {
  require_queues(t);
  const DeviceRef device = t.device();
  const Fence a(device, 5), b(device, 0, QUERN_FENCE_HOST_SIGNAL);
  t.check(wait(device, {a.at(5), b.at(1)}, true, 0) == QUERN_OK, "any: one that is reached is enough [C18]");
  t.check(wait(device, {a.at(5), b.at(1)}, false, seconds(0.01)) == QUERN_TIMEOUT, "all: one that is not reached is awaited [C18]");
  t.check(wait(device, {}, false, 0) == QUERN_OK, "no points: nothing to wait for [C18]");
  t.check(device.api().fence_signal(b.get(), 1, nullptr) == QUERN_OK && wait(device, {a.at(5), b.at(1)}, false, seconds(5)) == QUERN_OK,
          "all: reached when both are [C18]");
}

void the_host_signals_later(ScriptContext& t) {
  require_queues(t);
  const DeviceRef device = t.device();
  if (device.api().fence_signal == nullptr) t.waive("fence_signal is null", "the plugin has no fences for the host to signal");
  Queue queue(device);
  OneCopy one(device, queue);
  const Fence gate(device, 0, QUERN_FENCE_HOST_SIGNAL), done(device, 0);
  const RawQueue lane(device);
  t.require(enqueue(device, lane, one.ready.run(), {gate.at(1)}, {done.at(1)}) == QUERN_OK,
            "a wait for a host-signalled fence is enqueued before its signal [C18]");
  t.check(wait(device, {done.at(1)}, false, seconds(0.05)) == QUERN_TIMEOUT, "the run waits [C18]");
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    device.api().fence_signal(gate.get(), 1, nullptr);
  });
  const quern_status reached = wait(device, {done.at(1)}, false, seconds(20));
  other.join();
  t.check(reached == QUERN_OK && one.at_y.read() == counting(4, 1), "and goes on when the host signals, from any thread [C18]");
}

void a_wait_that_cannot_come_is_refused(ScriptContext& t) {
  require_queues(t);
  const DeviceRef device = t.device();
  Queue queue(device);
  OneCopy one(device, queue);
  const Fence never(device, 0), done(device, 0);
  const RawQueue lane(device);
  AbiError error;
  check_refused(t, enqueue(device, lane, one.ready.run(), {never.at(1)}, {done.at(1)}, error.get()), error, {QUERN_INVALID_ARGUMENT},
                "a wait for a point that nobody has enqueued is refused [C18]");
  t.check(
      enqueue(device, lane, one.ready.run(), {}, {done.at(1)}) == QUERN_OK && wait(device, {done.at(1)}, false, seconds(20)) == QUERN_OK,
      "and the queue goes on [C18]");
}

/// x -> a on one queue, a -> y on another that waits for it; the first waits for the host.
void order_across_queues(ScriptContext& t) {
  require_queues(t);
  const DeviceRef device = t.device();
  Queue queue(device);
  Graph g;
  const std::uint32_t x = g.input({64}), y = g.output({64});
  g.copy(x, y);
  const Plan plan(device, g.get());
  Floats from(device, queue, counting(64, 1)), middle(device, queue, std::vector<float>(64, -1)),
      to(device, queue, std::vector<float>(64, -2));
  Ready first(device, queue, plan, {{x, from.span()}, {y, middle.span()}}),
      second(device, queue, plan, {{x, middle.span()}, {y, to.span()}});
  for (int round = 0; round < 50; ++round) {
    from.write(counting(64, static_cast<float>(round)));
    const Fence a(device, 0), b(device, 0);
    const RawQueue one(device), two(device);
    t.check(enqueue(device, one, first.run(), {}, {a.at(1)}) == QUERN_OK &&
                enqueue(device, two, second.run(), {a.at(1)}, {b.at(1)}) == QUERN_OK,
            "two queues, one behind the other");
    t.check(wait(device, {b.at(1)}, false, seconds(20)) == QUERN_OK && to.read() == counting(64, static_cast<float>(round)),
            "the second sees what the first wrote [C18]");
    t.check(a.value() >= 1, "and its fence was reached before [C18]");
  }
}

void a_failed_run_fails_its_dependants(ScriptContext& t) {
  require_queues(t);
  const DeviceRef device = t.device();
  Queue queue(device);
  Graph g;
  const std::uint32_t x = g.input({4, 2}), y = g.output({4, 2}), count = g.state({1}, QUERN_I32);
  const std::uint32_t s = g.symbol(0, 4, count);
  g.range(x, 0, s);
  g.range(y, 0, s);
  g.copy(x, y);
  const Plan plan(device, g.get());
  Floats at_x(device, queue, counting(8, 1)), at_y(device, queue, std::vector<float>(8, -1));
  Integers at_count(device, queue, {99});
  Ready bad(device, queue, plan, {{x, at_x.span()}, {y, at_y.span()}, {count, at_count.span()}});
  OneCopy dependant(device, queue), free(device, queue);
  const Fence a(device, 0), b(device, 0), c(device, 0);
  const RawQueue one(device), two(device);
  quern_run_status first = made<quern_run_status>(QUERN_TYPE_RUN_STATUS), second = first, third = first;
  quern_run bad_run = bad.run(), next = dependant.ready.run(), other = free.ready.run();
  bad_run.status = &first;
  next.status = &second;
  other.status = &third;
  t.require(enqueue(device, one, bad_run, {}, {a.at(1)}) == QUERN_OK && enqueue(device, two, next, {a.at(1)}, {b.at(1)}) == QUERN_OK &&
                enqueue(device, two, other, {}, {c.at(1)}) == QUERN_OK,
            "three runs are enqueued");
  t.check(wait(device, {a.at(1), b.at(1), c.at(1)}, false, seconds(20)) == QUERN_OK, "each reaches its fence [C18]");
  t.check(first.code == QUERN_INVALID_ARGUMENT, "the first failed [C18]");
  t.check(second.code == QUERN_DEPENDENCY_FAILED && dependant.at_y.read() == std::vector<float>(4, -1),
          "the run that waits for it fails too and writes nothing [C18]");
  t.check(third.code == QUERN_OK && free.at_y.read() == counting(4, 1), "a run that does not is free [C18]");
}

/// Patches of runs that are in flight together are applied in queue order, each before its own run's first node.
void patches_in_flight(ScriptContext& t) {
  require_queues(t);
  const DeviceRef device = t.device();
  Queue queue(device);
  OneCopy one(device, queue);
  const Instance deep(device, one.plan, {}, 8);
  const std::uint32_t depth = deep.info().max_in_flight;
  t.check(depth >= 1, "an instance says how many runs may be in flight [C12]");
  Region scratch(device, queue, deep.info().scratch_bytes, deep.info().scratch_alignment, false);
  AbiError error;
  error.check(prepare(device, queue, deep.get(), {{one.x, one.at_x.span()}, {one.y, one.at_y.span()}}, scratch.span(), error), "prepare");
  const Fence gate(device, 0, QUERN_FENCE_HOST_SIGNAL), done(device, 0);
  const RawQueue lane(device);
  quern_status over = QUERN_OK;
  for (std::uint32_t i = 0; i <= depth && over == QUERN_OK; ++i) {
    const float value = static_cast<float>(100 + i);
    const quern_patch patch = patch_of(one.x, value);
    quern_run run = made<quern_run>(QUERN_TYPE_RUN);
    run.instance = deep.get();
    run.patches = {&patch, 1, sizeof patch};
    over = enqueue(device, lane, run, {gate.at(1)}, {done.at(i + 1)});
    if (i < depth) t.check(over == QUERN_OK, "up to max_in_flight runs are taken [C12]");
  }
  t.check(over == QUERN_BUSY, "one more is BUSY [C12]");
  device.api().fence_signal(gate.get(), 1, nullptr);
  t.check(wait(device, {done.at(depth)}, false, seconds(20)) == QUERN_OK, "all end");
  std::vector<float> expected = counting(4, 1);
  expected[0] = static_cast<float>(100 + depth - 1);
  t.check(one.at_y.read() == expected, "the last run has the last patch, the one that was BUSY left none [C13]");
}

}  // namespace

void timeline_scripts(CaseSink& sink) {
  add(sink, "queues.synchronous_devices_have_no_fences", synchronous_devices_have_no_fences);
  add(sink, "queues.order_across_queues", order_across_queues);
  add(sink, "queues.patches_in_flight", patches_in_flight);
  add(sink, "fences.have_values", fences_have_values);
  add(sink, "fences.waits_time_out", waits_time_out);
  add(sink, "fences.waits_for_all_and_any", waits_for_all_and_any);
  add(sink, "fences.the_host_signals_later", the_host_signals_later);
  add(sink, "fences.a_wait_that_cannot_come_is_refused", a_wait_that_cannot_come_is_refused);
  add(sink, "fences.a_failed_run_fails_its_dependants", a_failed_run_fails_its_dependants);
}

}  // namespace quern::conformance::abi
