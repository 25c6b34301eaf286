// Queues and fences [C18 C31]: order, waits, time-outs, what the host signals, failed dependencies. On a SYNCHRONOUS device the host has
// these, and what must hold is that the plugin never takes a fence for done.
#include "abi/scripts.hpp"
#include "abi/simple.hpp"

#include "device_run/status_words.hpp"
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
    check_refused(t, device.api().submit(device.handle(), nullptr, &runs, error.get()), error, {QUERN_INVALID_ARGUMENT, QUERN_UNSUPPORTED},
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
  t.check(enqueue(device, lane, one.ready.run(), {}, {done.at(1)}) == QUERN_OK &&
              wait(device, {done.at(1)}, false, seconds(20)) == QUERN_OK,
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

/// A copy on a raw queue, behind `after`, signalling `then`.
quern_status enqueue_copy(DeviceRef device, const RawQueue& queue, quern_span to, quern_span from, const std::vector<quern_point>& after,
                          const std::vector<quern_point>& then) {
  quern_sync sync = made<quern_sync>(QUERN_TYPE_SYNC);
  sync.wait = array_of(after);
  sync.signal = array_of(then);
  return device.api().copy(device.handle(), queue.get(), &to, &from, to.bytes, &sync, nullptr);
}

quern_span part(quern_span span, std::uint64_t offset, std::uint64_t bytes) { return {span.buffer, nullptr, span.offset + offset, bytes}; }

void gated_points_are_not_reached(ScriptContext& t) {
  require_queues(t);
  const DeviceRef device = t.device();
  Queue queue(device);
  OneCopy one(device, queue), two(device, queue);
  const Fence first_gate(device, 0, QUERN_FENCE_HOST_SIGNAL), second_gate(device, 3, QUERN_FENCE_HOST_SIGNAL), done(device, 2);
  const RawQueue lane(device);
  t.require(enqueue(device, lane, one.ready.run(), {first_gate.at(1)}, {done.at(5)}) == QUERN_OK &&
                enqueue(device, lane, two.ready.run(), {second_gate.at(4)}, {done.at(9)}) == QUERN_OK,
            "two runs are enqueued, each behind a gate");
  const auto is = [&](std::uint64_t value, const char* when) {
    for (int i = 0; i < 20; ++i) {
      t.check(done.value() == value,
              std::string(when) + " fence_query gives the last point that was reached [C31], found " + std::to_string(done.value()));
      if (device.api().fence_info != nullptr) {
        quern_fence_info info = made<quern_fence_info>(QUERN_TYPE_FENCE_INFO);
        device.api().fence_info(done.get(), &info, nullptr);
        t.check(info.value == value && (info.poll_word == nullptr || *info.poll_word == value),
                std::string(when) + " fence_info says the same [C31]");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  is(2, "before the first gate");
  t.check(wait(device, {done.at(5)}, false, 0) == QUERN_TIMEOUT, "the first point is not reached [C31]");
  device.api().fence_signal(first_gate.get(), 1, nullptr);
  t.require(wait(device, {done.at(5)}, false, seconds(20)) == QUERN_OK, "the first point is reached");
  is(5, "between the gates");
  t.check(wait(device, {done.at(6)}, false, 0) == QUERN_TIMEOUT && wait(device, {done.at(9)}, false, 0) == QUERN_TIMEOUT,
          "what lies between two points waits for the second [C31]");
  device.api().fence_signal(second_gate.get(), 40, nullptr);  // above what is awaited, which is then reached too
  t.require(wait(device, {done.at(9)}, false, seconds(20)) == QUERN_OK, "the second point is reached");
  is(9, "at the end");
}

void fences_never_go_back(ScriptContext& t) {
  require_queues(t);
  const DeviceRef device = t.device();
  if (device.api().fence_signal == nullptr) t.waive("fence_signal is null", "the plugin has no fences for the host to signal");
  const Fence fence(device, 0, QUERN_FENCE_HOST_SIGNAL), own(device, 1);
  const auto signal = [&](std::uint64_t value) { return device.api().fence_signal(fence.get(), value, nullptr); };
  t.check(signal(5) == QUERN_OK && fence.value() == 5, "the host signals 5 [C31]");
  for (const std::uint64_t lower : {3u, 4u, 0u}) {
    AbiError error;
    check_refused(t, device.api().fence_signal(fence.get(), lower, error.get()), error, {QUERN_INVALID_ARGUMENT},
                  "a signal below the value is refused [C31]");
    t.check(fence.value() == 5 && wait(device, {fence.at(5)}, false, 0) == QUERN_OK, "and the value stays [C31]");
  }
  t.check(signal(6) == QUERN_OK && fence.value() == 6, "a later signal raises it [C31]");
  AbiError error;
  check_refused(t, device.api().fence_signal(own.get(), 7, error.get()), error, {QUERN_INVALID_ARGUMENT},
                "a fence that is not the host's to signal is not signalled by it [C31]");
  t.check(own.value() == 1, "and stays [C31]");
}

/// Copies behind one gate: 64 at least are taken; each that was taken is done, in order; none that was not.
void queues_hold_64_calls(ScriptContext& t) {
  require_queues(t);
  const DeviceRef device = t.device();
  if (device.api().copy == nullptr) t.waive("copy is null", "the host downloads and uploads instead");
  Queue queue(device);
  constexpr std::size_t most = 1024, each = 64 / sizeof(float);
  const std::vector<float> numbers = counting(most * each, 1), mark(most * each, -1);
  Floats from(device, queue, numbers), to(device, queue, mark), last(device, queue, std::vector<float>(each, -2));
  const Fence gate(device, 0, QUERN_FENCE_HOST_SIGNAL), done(device, 0);
  const RawQueue lane(device);
  std::size_t taken = 0;
  quern_status status = QUERN_OK;
  for (; taken < most; ++taken) {
    const std::uint64_t offset = taken * 64;
    // Only the first waits, and only each second one signals: the queue's order holds for all.
    status = enqueue_copy(device, lane, part(to.span(), offset, 64), part(from.span(), offset, 64),
                          taken == 0 ? std::vector<quern_point>{gate.at(1)} : std::vector<quern_point>{},
                          taken % 2 == 0 ? std::vector<quern_point>{done.at(taken + 1)} : std::vector<quern_point>{});
    if (status != QUERN_OK) break;
  }
  t.check(taken >= 64, "a queue takes 64 calls that wait [C31], found " + std::to_string(taken));
  t.check(status == QUERN_OK || status == QUERN_BUSY, "and answers BUSY where it is full [C31], found " + status_words(status));
  t.check(done.value() == 0 && to.read() == mark, "nothing is done while the gate is closed [C31]");
  device.api().fence_signal(gate.get(), 1, nullptr);
  t.require(taken > 0 && wait(device, {done.at((taken - 1) / 2 * 2 + 1)}, false, seconds(60)) == QUERN_OK, "the queue goes on");
  // One more, from where the last one wrote: its point is reached when all before it are done.
  t.require(enqueue_copy(device, lane, part(last.span(), 0, 64), part(to.span(), (taken - 1) * 64, 64), {}, {done.at(most + 2)}) ==
                    QUERN_OK &&
                wait(device, {done.at(most + 2)}, false, seconds(60)) == QUERN_OK,
            "a call behind them is done");
  std::vector<float> expected = mark;
  std::copy_n(numbers.begin(), taken * each, expected.begin());
  t.check(to.read() == expected, "each call that was taken is done, and none that was not [C31]");
  t.check(last.read() == std::vector<float>(expected.begin() + static_cast<std::ptrdiff_t>((taken - 1) * each),
                                            expected.begin() + static_cast<std::ptrdiff_t>(taken * each)),
          "a call sees what those before it on its queue wrote [C31]");
}

/// Uploads, runs, copies and downloads on one queue, and one wait at the end.
void calls_go_in_order(ScriptContext& t) {
  require_queues(t);
  const DeviceRef device = t.device();
  Queue queue(device);
  OneCopy one(device, queue, 16);
  const RawQueue lane(device);
  const Fence gate(device, 0, QUERN_FENCE_HOST_SIGNAL), done(device, 0);
  constexpr std::size_t rounds = 12;
  std::vector<std::vector<float>> sources, targets;
  for (std::size_t i = 0; i < rounds; ++i) {
    sources.push_back(counting(16, static_cast<float>(100 * i)));
    targets.emplace_back(16, -5);
  }
  const quern_span x = one.at_x.span(), y = one.at_y.span();
  const std::vector<quern_point> first{gate.at(1)};
  for (std::size_t i = 0; i < rounds; ++i) {
    quern_sync sync = made<quern_sync>(QUERN_TYPE_SYNC), end = sync;
    if (i == 0) sync.wait = array_of(first);
    const quern_point point = done.at(i + 1);
    end.signal = {&point, 1, sizeof point};
    t.require(device.api().upload(device.handle(), lane.get(), &x, sources[i].data(), 64, &sync, nullptr) == QUERN_OK, "an upload");
    const quern_run run = one.ready.run();
    const quern_array runs{&run, 1, sizeof run};
    quern_status status = device.api().submit(device.handle(), lane.get(), &runs, nullptr);
    if (status == QUERN_BUSY && i == 1) {  // of this instance one run may be in flight: the gate opens, and each run is awaited
      device.api().fence_signal(gate.get(), 1, nullptr);
    }
    for (int tries = 0; status == QUERN_BUSY && tries < 2000; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      status = device.api().submit(device.handle(), lane.get(), &runs, nullptr);
    }
    t.require(status == QUERN_OK, "a run behind it");
    t.require(device.api().download(device.handle(), lane.get(), targets[i].data(), &y, 64, &end, nullptr) == QUERN_OK,
              "a download behind that");
  }
  device.api().fence_signal(gate.get(), 1, nullptr);
  t.require(wait(device, {done.at(rounds)}, false, seconds(60)) == QUERN_OK, "the last point is reached");
  for (std::size_t i = 0; i < rounds; ++i)
    t.check(targets[i] == sources[i],
            "upload, run and download go one after another, and not before those in front of them [C31], not so round " +
                std::to_string(i));
}

/// What work in flight names stays: each destroy answers BUSY and does nothing.
void what_is_in_flight_stays(ScriptContext& t) {
  require_queues(t);
  const DeviceRef device = t.device();
  const quern_plugin_api& api = device.api();
  Queue queue(device);
  OneCopy one(device, queue);
  AbiError error;
  quern_queue* lane = nullptr;
  quern_buffer* buffer = nullptr;
  quern_fence *gate = nullptr, *done = nullptr;
  error.check(api.queue_create(device.handle(), QUERN_QUEUE_COMPUTE, &lane, error.get()), "queue_create");
  error.check(api.buffer_create(device.handle(), nullptr, 64, &buffer, error.get()), "buffer_create");
  error.check(api.fence_create(device.handle(), 0, QUERN_FENCE_HOST_SIGNAL, &gate, error.get()), "fence_create");
  error.check(api.fence_create(device.handle(), 0, 0, &done, error.get()), "fence_create");
  const std::vector<float> numbers = counting(16, 9);
  const quern_span whole{buffer, nullptr, 0, 64};
  const quern_point opens{gate, 1}, uploaded{done, 1}, ran{done, 2};
  quern_sync sync = made<quern_sync>(QUERN_TYPE_SYNC), behind = sync;
  sync.wait = {&opens, 1, sizeof opens};
  sync.signal = {&uploaded, 1, sizeof uploaded};
  behind.signal = {&ran, 1, sizeof ran};
  t.require(api.upload(device.handle(), lane, &whole, numbers.data(), 64, &sync, nullptr) == QUERN_OK, "an upload behind a gate");
  quern_run run = one.ready.run();
  run.sync = &behind;
  const quern_array runs{&run, 1, sizeof run};
  t.require(api.submit(device.handle(), lane, &runs, nullptr) == QUERN_OK, "a run behind it");
  const auto busy = [&](const char* what, quern_status status, const AbiError& said) {
    check_refused(t, status, said, {QUERN_BUSY}, std::string(what) + " that work in flight names is BUSY [C31]");
    if (status == QUERN_OK) t.require(false, "and stays [C31]");
  };
  {
    AbiError e;
    busy("a queue", api.queue_destroy(lane, e.get()), e);
  }
  {
    AbiError e;
    busy("the fence of a wait", api.fence_destroy(gate, e.get()), e);
  }
  {
    AbiError e;
    busy("the fence of a signal", api.fence_destroy(done, e.get()), e);
  }
  {
    AbiError e;
    busy("a buffer", api.buffer_destroy(buffer, e.get()), e);
  }
  {
    AbiError e;
    busy("a buffer that a run is bound to", api.buffer_destroy(one.at_x.span().buffer, e.get()), e);
  }
  {
    AbiError e;
    busy("an instance", api.instance_destroy(one.ready.instance().get(), e.get()), e);
  }
  {
    AbiError e;
    busy("the bindings of an instance",
         prepare(device, queue, one.ready.instance().get(), {{one.x, one.at_x.span()}, {one.y, one.at_y.span()}},
                 one.ready.scratch().span(), e),
         e);
  }
  t.check(one.at_y.read() == std::vector<float>(4, -1), "nothing of it is done meanwhile [C31]");
  t.require(api.fence_signal(gate, 1, nullptr) == QUERN_OK, "the gate opens");
  const quern_array last{&ran, 1, sizeof ran};
  t.require(api.fence_wait(device.handle(), &last, 0, seconds(20), nullptr) == QUERN_OK, "all is done");
  t.check(one.at_y.read() == counting(4, 1), "the run was not harmed [C31]");
  std::vector<float> found(16);
  quern_sync third = made<quern_sync>(QUERN_TYPE_SYNC);
  const quern_point fetched{done, 3};
  third.signal = {&fetched, 1, sizeof fetched};
  const quern_array fetch{&fetched, 1, sizeof fetched};
  t.check(api.download(device.handle(), lane, found.data(), &whole, 64, &third, nullptr) == QUERN_OK &&
              api.fence_wait(device.handle(), &fetch, 0, seconds(20), nullptr) == QUERN_OK && found == numbers,
          "nor the upload [C31]");
  // From its point on work is done: nothing is named any more.
  t.check(api.queue_destroy(lane, error.get()) == QUERN_OK, "a queue whose last point was reached is destroyed [C31] " + error.text());
  t.check(api.fence_destroy(gate, error.get()) == QUERN_OK && api.fence_destroy(done, error.get()) == QUERN_OK,
          "and so are fences [C31] " + error.text());
  t.check(api.buffer_destroy(buffer, error.get()) == QUERN_OK, "and buffers [C31] " + error.text());
}

void null_queues_are_refused(ScriptContext& t) {
  require_queues(t);
  const DeviceRef device = t.device();
  const quern_plugin_api& api = device.api();
  Queue queue(device);
  OneCopy one(device, queue);
  float data[4] = {7, 7, 7, 7};
  const quern_span x = one.at_x.span(), y = one.at_y.span();
  const quern_run run = one.ready.run();
  const quern_array runs{&run, 1, sizeof run}, entries{};
  const auto refused = [&](const char* what, quern_status status, const AbiError& error) {
    check_refused(t, status, error, {QUERN_INVALID_ARGUMENT}, std::string(what) + " without a queue is refused [C31]");
  };
  AbiError upload, download, copy, submit, prepared;
  refused("an upload", api.upload(device.handle(), nullptr, &x, data, 16, nullptr, upload.get()), upload);
  refused("a download", api.download(device.handle(), nullptr, data, &x, 16, nullptr, download.get()), download);
  if (api.copy != nullptr) refused("a copy", api.copy(device.handle(), nullptr, &y, &x, 16, nullptr, copy.get()), copy);
  refused("a run", api.submit(device.handle(), nullptr, &runs, submit.get()), submit);
  refused("a prepare", api.prepare(device.handle(), nullptr, &entries, nullptr, prepared.get()), prepared);
  t.check(one.at_x.read() == counting(4, 1) && one.at_y.read() == std::vector<float>(4, -1) && data[0] == 7, "and nothing is done [C31]");
}

}  // namespace

void timeline_scripts(CaseSink& sink) {
  add(sink, "queues.synchronous_devices_have_no_fences", synchronous_devices_have_no_fences);
  add(sink, "queues.order_across_queues", order_across_queues);
  add(sink, "queues.patches_in_flight", patches_in_flight);
  add(sink, "queues.hold_64_calls", queues_hold_64_calls);
  add(sink, "queues.calls_go_in_order", calls_go_in_order);
  add(sink, "queues.what_is_in_flight_stays", what_is_in_flight_stays);
  add(sink, "queues.null_are_refused", null_queues_are_refused);
  add(sink, "fences.gated_points_are_not_reached", gated_points_are_not_reached);
  add(sink, "fences.never_go_back", fences_never_go_back);
  add(sink, "fences.have_values", fences_have_values);
  add(sink, "fences.waits_time_out", waits_time_out);
  add(sink, "fences.waits_for_all_and_any", waits_for_all_and_any);
  add(sink, "fences.the_host_signals_later", the_host_signals_later);
  add(sink, "fences.a_wait_that_cannot_come_is_refused", a_wait_that_cannot_come_is_refused);
  add(sink, "fences.a_failed_run_fails_its_dependants", a_failed_run_fails_its_dependants);
}

}  // namespace quern::conformance::abi
