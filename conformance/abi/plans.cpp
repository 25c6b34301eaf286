// Plans and instances: what submit may not do [C12], many instances [C12 C27], lists of entries [C19], how runs end [C18].
#include "abi/scripts.hpp"
#include "abi/simple.hpp"
#include "device_run/allocation_watch.hpp"
#include "device_run/call_watch.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

namespace quern::conformance::abi {
namespace {

/// A driver allocates for itself what no plugin can help, so that only the plugin's counters speak there.
bool malloc_is_the_plugins(DeviceRef device) {
  return AllocationWatch::available() && (device.device_class() == QUERN_DEVICE_CPU || device.device_class() == QUERN_DEVICE_OTHER);
}

/// 10,000 submits after prepare with lengths that change each time, and a patch in each: no allocation, compile or re-record.
void ten_thousand_submits(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr std::int64_t max = 33, k = 16, n = 8;
  Graph g;
  const std::uint32_t x = g.input({max, k}), w = g.constant({n, k}), middle = g.internal({max, k}), y = g.output({max, n}),
                      kept = g.state({1});
  const std::uint32_t live = g.state({1}, QUERN_I32), s = g.symbol(1, max);
  for (const std::uint32_t v : {x, middle, y}) g.range(v, 0, s);
  g.copy(x, middle);
  g.matmul(middle, w, y);
  const std::uint32_t source = g.state({1});
  Graph::predicate(g.copy(source, kept), live);
  const std::vector<float> ws = counting(n * k, 1);
  std::vector<float> xs = counting(max * k, 1);
  Floats at_x(device, queue, xs), at_w(device, queue, ws), at_y(device, queue, std::vector<float>(max * n)), at_kept(device, queue, {0}),
      at_source(device, queue, {0});
  Integers at_live(device, queue, {1});
  const Plan plan(device, g.get());
  Ready ready(
      device, queue, plan,
      {{x, at_x.span()}, {w, at_w.span()}, {y, at_y.span()}, {kept, at_kept.span()}, {live, at_live.span()}, {source, at_source.span()}});

  quern_run_status status = made<quern_run_status>(QUERN_TYPE_RUN_STATUS);
  float value = 0, element = 0;
  const quern_patch patches[] = {patch_of(source, value), patch_of(x, element)};
  quern_bound bound{s, 0, 0};
  quern_run run = ready.run();
  run.patches = {patches, 2, sizeof patches[0]};
  run.bounds = {&bound, 1, sizeof bound};
  run.status = &status;
  const quern_array runs{&run, 1, sizeof run};
  AbiError error;
  std::uint64_t taken = 0, failed = 0;
  constexpr int submits = 10000;
  int wrong = -1;                                       // the first run whose values are
  const int read_each = device.host_memory() ? 1 : 97;  // a download is a call of its own
  for (int i = 0; i < submits; ++i) {
    value = static_cast<float>(i);
    element = static_cast<float>(i % 509);  // so that no run's y is that of a run before
    bound.upper = 1 + i * 7 % max;
    run.sync = queue.next_signal();
    quern_status answered = QUERN_OK;
    {
      const AllocationWatch watch;
      answered = device.api().submit(device.handle(), queue.get(), &runs, error.get());
      taken += watch.count();
    }
    if (answered != QUERN_OK) queue.withdraw_signal();
    else queue.wait(60);
    failed += answered != QUERN_OK || status.code != QUERN_OK;
    if (i % read_each != 0 && i != submits - 1) continue;
    xs[0] = element;
    const std::vector<float> expected = product(xs, ws, bound.upper, n, k), found = at_y.read();
    if (wrong < 0 && (!std::equal(expected.begin(), expected.end(), found.begin()) || at_kept.read()[0] != value)) wrong = i;
  }
  t.check(failed == 0, "10,000 runs of changing lengths end well [C12]");
  t.check(wrong < 0, "each of them that is read, every 97th at least, has computed right [C12], not so run " + std::to_string(wrong));
  if (malloc_is_the_plugins(device))
    t.check(taken == 0, "submit takes nothing from malloc [C12], found " + std::to_string(taken) + " calls");
  t.check(at_kept.read() == std::vector<float>{submits - 1}, "the last run saw its own patch [C13]");
  if (device.api().counters == nullptr) t.waive("counters is null", "the plugin counts nothing");
  const quern_counters counters = ready.instance().counters();
  t.check(counters.runs == submits, "counters.runs is the number of runs since prepare [C12]");
  t.check(counters.device_allocations == 0 && counters.host_allocations == 0, "counters: no allocation [C12]");
  t.check(counters.compiles == 0 && counters.rerecords == 0, "counters: no compile and no re-record [C12]");
}

/// What a child after fork submits while its system calls are watched: products of some and of many rows, patches, bounds, a list. Nothing of
/// the suite's own takes memory from the first submit on.
class WatchedSubmits {
 public:
  explicit WatchedSubmits(ScriptContext& t) : host_(2), own_(t, host_), device_(own_.ref()), queue_(device_) {
    two_ = std::make_unique<TwoNodes>(device_, queue_, 64);
    const std::uint32_t x = graph_.input({rows, k}), w = graph_.constant({n, k}), y = graph_.output({rows, n});
    state_ = graph_.state({1});
    const std::uint32_t kept = graph_.state({1}), live = graph_.state({1}, QUERN_I32);
    symbol_ = graph_.symbol(1, rows);
    graph_.range(x, 0, symbol_);
    graph_.range(y, 0, symbol_);
    graph_.matmul(x, w, y);
    Graph::predicate(graph_.copy(state_, kept), live);
    plan_ = std::make_unique<Plan>(device_, graph_.get());
    const auto floats = [&](std::size_t count) {
      return memory_.emplace_back(std::make_unique<Floats>(device_, queue_, counting(count, 1)))->span();
    };
    const Spans spans{{x, floats(rows * k)}, {w, floats(n * k)}, {y, floats(rows * n)},
                      {state_, floats(1)},   {kept, floats(1)},  {live, floats(1)}};
    ready_ = std::make_unique<Ready>(device_, queue_, *plan_, spans);
    patch_ = patch_of(state_, value_);
  }

  void go() {
    for (int i = 0; i < 12; ++i) {
      value_ = static_cast<float>(i);
      bound_ = {symbol_, 0, i % 3 == 0 ? rows : 1 + i};
      quern_run runs[] = {ready_->run(), two_->ready.run()};
      runs[0].patches = {&patch_, 1, sizeof patch_};
      runs[0].bounds = {&bound_, 1, sizeof bound_};
      const int last = i % 2;  // by turns a list of two and one run
      runs[last].sync = queue_.next_signal();
      const quern_array list{runs, static_cast<std::uint64_t>(last) + 1, sizeof runs[0]};
      if (device_.api().submit(device_.handle(), queue_.get(), &list, nullptr) == QUERN_OK) queue_.wait(20);
    }
  }

 private:
  static constexpr std::int64_t rows = 160, k = 256, n = 192;
  TestHost host_;
  OwnDevice own_;
  DeviceRef device_;
  Queue queue_;
  std::unique_ptr<TwoNodes> two_;
  Graph graph_;
  std::uint32_t state_ = 0, symbol_ = 0;
  std::unique_ptr<Plan> plan_;
  std::vector<std::unique_ptr<Floats>> memory_;
  std::unique_ptr<Ready> ready_;
  float value_ = 0;
  quern_patch patch_{};
  quern_bound bound_{};
};

/// From the first run behind prepare on: no memory of the system's, no file, no new thread. What only one of two children sees is no
/// finding: there a thread that the system let run late made its first steps.
void submit_asks_nothing_of_the_system(ScriptContext& t) {
  const DeviceRef device = t.device();
  if (device.device_class() != QUERN_DEVICE_CPU && device.device_class() != QUERN_DEVICE_OTHER)
    t.waive("the device's driver", "its own system calls cannot be told from the plugin's");
  if (!CallWatch::available()) t.waive("seccomp", "system calls cannot be watched in this build or on this machine");
  const auto watch = [&] {
    return CallWatch::of(
        [&]() -> std::function<void()> {
          const auto submits = std::make_shared<WatchedSubmits>(t);
          return [submits] { submits->go(); };
        },
        false);
  };
  std::string found = watch();
  if (!found.empty()) found = watch();
  t.check(found.empty(), "submit takes no memory from the system and opens no file [C12], found " + found);
}

void submit_before_prepare_is_refused(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  OneCopy one(device, queue);
  const Instance fresh(device, one.plan);
  quern_run run = made<quern_run>(QUERN_TYPE_RUN);
  run.instance = fresh.get();
  const quern_array runs{&run, 1, sizeof run};
  AbiError error;
  check_refused(t, device.api().submit(device.handle(), queue.get(), &runs, error.get()), error, {QUERN_INVALID_ARGUMENT},
                "a run of an instance that was not prepared is refused [C12]");
}

/// prepare writes scratch and private memory only, whatever it tunes; scratch is undefined before each run.
void prepare_writes_nothing_that_is_bound(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  for (const std::uint32_t tuning : {QUERN_TUNING_NONE, QUERN_TUNING_MEASURE}) {
    TwoNodes two(device, queue, 17);
    quern_compile_options options = compile_options();
    options.effort = 2;
    options.tuning = tuning;
    const Plan plan(device, two.graph.get(), options);
    const std::vector<float> mark(51, -3);
    two.at_z.write(mark);
    Ready ready(device, queue, plan, {{two.x, two.at_x.span()}, {two.b, two.at_b.span()}, {two.z, two.at_z.span()}});
    t.check(two.at_z.read() == mark, "prepare does not write outputs [C12]");
    t.check(two.at_x.read() == counting(68, -7) && two.at_b.read() == counting(12, -5), "nor inputs and constants [C12]");
    for (const std::byte poison : {std::byte{0xff}, std::byte{0x5a}}) {
      ready.scratch().fill(poison);
      two.at_z.write(mark);
      t.check(ready.go().code == QUERN_OK && two.at_z.read() == two.expected(), "what scratch held before a run does not matter [C12]");
      t.check(ready.scratch().canary_damage().empty(), "scratch is as large as announced [C12]");
    }
  }
}

void memory_needs_are_repeatable(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  TwoNodes two(device, queue, 9);
  const Instance first(device, two.plan), second(device, two.plan);
  t.check(first.info().scratch_bytes == second.info().scratch_bytes && first.info().private_bytes == second.info().private_bytes,
          "two instances of the same bounds need the same memory [C12]");
  Graph g;
  const std::uint32_t x = g.input({64, 64}), m = g.internal({64, 64}), y = g.output({64, 64});
  const std::uint32_t s = g.symbol(0, 64);
  for (const std::uint32_t v : {x, m, y}) g.range(v, 0, s);
  g.copy(x, m);
  g.copy(m, y);
  const Plan plan(device, g.get());
  const Instance large(device, plan), small(device, plan, {{s, 0, 1}});
  t.check(small.info().scratch_bytes <= large.info().scratch_bytes, "a lower bound needs no more scratch [C12]");
}

void many_instances_of_a_plan(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  TwoNodes two(device, queue, 4);
  constexpr std::size_t count = 16;
  std::vector<std::unique_ptr<Floats>> in, out;
  std::vector<std::unique_ptr<Ready>> instances;
  for (std::size_t i = 0; i < count; ++i) {
    in.push_back(std::make_unique<Floats>(device, queue, counting(16, static_cast<float>(i))));
    out.push_back(std::make_unique<Floats>(device, queue, std::vector<float>(12, -1)));
    instances.push_back(std::make_unique<Ready>(device, queue, two.plan,
                                                Spans{{two.x, in[i]->span()}, {two.b, two.at_b.span()}, {two.z, out[i]->span()}}));
  }
  for (int round = 0; round < 3; ++round)
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = (i * 5 + static_cast<std::size_t>(round)) % count;
      out[at]->write(std::vector<float>(12, -1));
      t.check(instances[at]->go().code == QUERN_OK, "16 instances of a plan take turns");
      t.check(out[at]->read() == product(counting(16, static_cast<float>(at)), counting(12, -5), 4, 3, 4),
              "each with its own bindings [C12]");
    }
  while (!instances.empty()) instances.erase(instances.begin() + static_cast<std::ptrdiff_t>(instances.size() / 2));
  t.check(two.ready.go().code == QUERN_OK && two.at_z.read() == two.expected(), "and go in any order [C27]");
}

void lists_are_all_or_nothing(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  OneCopy one(device, queue), other(device, queue);
  std::vector<quern_run> runs = {one.ready.run(), other.ready.run()};
  runs[1].flags = 2;
  const quern_array both = array_of(runs);
  AbiError error;
  check_refused(t, device.api().submit(device.handle(), queue.get(), &both, error.get()), error, {QUERN_UNSUPPORTED},
                "a list with a bad run is refused [C19]");
  t.check(one.at_y.read() == std::vector<float>(4, -1), "and the good run before it was not started [C19]");
  quern_prepare_entry entries[2] = {made<quern_prepare_entry>(QUERN_TYPE_PREPARE_ENTRY),
                                    made<quern_prepare_entry>(QUERN_TYPE_PREPARE_ENTRY)};
  Floats elsewhere(device, queue, std::vector<float>(4, -5));
  quern_span x = one.at_x.span(), y = elsewhere.span();
  std::vector<quern_binding> bindings(2, made<quern_binding>(QUERN_TYPE_BINDING));
  bindings[0].value = one.x, bindings[0].spans = {&x, 1, sizeof x};
  bindings[1].value = one.y, bindings[1].spans = {&y, 1, sizeof y};
  entries[0].instance = one.ready.instance().get();
  entries[0].bindings = array_of(bindings);
  entries[0].scratch = one.ready.scratch().span();
  entries[1].instance = other.ready.instance().get();  // binds nothing, which is refused
  const quern_array list{entries, 2, sizeof entries[0]};
  check_refused(t, device.api().prepare(device.handle(), queue.get(), &list, nullptr, error.get()), error, {QUERN_INVALID_ARGUMENT},
                "a list with a bad entry is refused [C19]");
  t.check(one.ready.go().code == QUERN_OK && one.at_y.read() == counting(4, 1), "and the good entry before it binds nothing new [C19]");
  t.check(elsewhere.read() == std::vector<float>(4, -5), "so that nothing is written to the new place [C19]");
}

void lists_run_in_order(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Graph g;
  const std::uint32_t x = g.input({4}), y = g.output({4});
  g.copy(x, y);
  const Plan plan(device, g.get());
  Floats a(device, queue, counting(4, 1)), b(device, queue, std::vector<float>(4)), c(device, queue, std::vector<float>(4)),
      d(device, queue, std::vector<float>(4));
  Ready first(device, queue, plan, {{x, a.span()}, {y, b.span()}}), second(device, queue, plan, {{x, b.span()}, {y, c.span()}}),
      third(device, queue, plan, {{x, c.span()}, {y, d.span()}});
  std::vector<quern_run> runs = {first.run(), second.run(), third.run()};
  std::vector<quern_run_status> statuses(3, made<quern_run_status>(QUERN_TYPE_RUN_STATUS));
  for (std::size_t i = 0; i < 3; ++i) statuses[i].code = 77, runs[i].status = &statuses[i];
  runs.back().sync = queue.next_signal();
  const quern_array list = array_of(runs);
  AbiError error;
  error.check(device.api().submit(device.handle(), queue.get(), &list, error.get()), "submit");
  queue.wait(60);
  t.check(d.read() == counting(4, 1), "the runs of a list go in queue order [C18]");
  for (const quern_run_status& s : statuses) t.check(s.code == QUERN_OK && s.faults == 0, "each run fills its status [C18]");
  const quern_array empty{nullptr, 0, 0};
  t.check(device.api().submit(device.handle(), queue.get(), &empty, error.get()) == QUERN_OK, "a list of no runs is nothing to do [C18]");
  quern_run without = first.run();
  t.check(first.submit(without, error) == QUERN_OK, "a run may have no status [C18]");
}

void failed_runs_are_not_sticky(ScriptContext& t) {
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
  Integers at_count(device, queue, {9});
  Ready ready(device, queue, plan, {{x, at_x.span()}, {y, at_y.span()}, {count, at_count.span()}});
  quern_run_status status = made<quern_run_status>(QUERN_TYPE_RUN_STATUS);
  quern_run run = ready.run();
  run.status = &status;
  AbiError error;
  t.check(ready.submit(run, error) == QUERN_OK, "submit of a run that will fail is OK: it was enqueued [C18]");
  t.check(status.code == QUERN_INVALID_ARGUMENT, "how it ended is in its status [C18]");
  t.check(at_y.read() == std::vector<float>(8, -1), "and it wrote nothing [C18]");
  at_count.write({3});
  t.check(ready.go().code == QUERN_OK, "the next run of the instance is free [C18]");
}

struct Instant {
  std::chrono::steady_clock::time_point clock;
  std::clock_t processor = 0;
  static Instant now() { return {std::chrono::steady_clock::now(), std::clock()}; }
};

/// How long the device may have worked in between. What runs on the host's processors, no longer than this process had them: where the
/// machine has other work, or stands still for a while, the clock goes on and the device does not.
std::chrono::duration<double> worked(DeviceRef device, const Instant& from, const Instant& to) {
  const std::chrono::duration<double> clock = to.clock - from.clock;
  const std::chrono::duration<double> processor(static_cast<double>(to.processor - from.processor) / CLOCKS_PER_SEC);
  const bool on_host = device.device_class() == QUERN_DEVICE_CPU || device.device_class() == QUERN_DEVICE_SOFTWARE;
  return on_host ? std::min(clock, processor) : clock;
}

/// A long chain of products; a cancel from another thread ends it soon.
void cancel_ends_a_run(ScriptContext& t) {
  const DeviceRef device = t.device();
  if (device.api().run_cancel == nullptr) t.waive("run_cancel is null", "runs cannot be ended");
  Queue queue(device);
  constexpr std::int64_t n = 384;
  constexpr int nodes = 4000;
  Graph g;
  const std::uint32_t x = g.input({n, n}), w = g.constant({n, n});
  const std::uint32_t buffers[2] = {g.internal({n, n}), g.internal({n, n})};
  const std::uint32_t y = g.output({n, n});
  g.matmul(x, w, buffers[0]);
  for (int i = 1; i < nodes; ++i) g.matmul(buffers[(i + 1) % 2], w, buffers[i % 2]);
  g.copy(buffers[(nodes - 1) % 2], y);
  const std::vector<float> zeros(n * n, 0);
  Floats at_x(device, queue, zeros), at_w(device, queue, zeros), at_y(device, queue, zeros);
  const Plan plan(device, g.get());
  Ready ready(device, queue, plan, {{x, at_x.span()}, {w, at_w.span()}, {y, at_y.span()}});
  std::atomic<bool> ended{false}, asked_at_all{false}, asked_ok{true};
  Instant asked;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    asked = Instant::now();
    asked_at_all = !ended;
    while (!ended) {  // asked again, should the first come before the run has begun
      if (device.api().run_cancel(ready.instance().get(), nullptr) != QUERN_OK) asked_ok = false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  quern_run_status status = made<quern_run_status>(QUERN_TYPE_RUN_STATUS);
  try {
    status = ready.go();
  } catch (...) {
    ended = true;
    other.join();
    throw;
  }
  const Instant end = Instant::now();
  ended = true;
  other.join();
  t.check(asked_ok, "run_cancel answers OK from another thread [C18]");
  // 50 ms on CPUs by the contract: a chain that came to its end by then, or before it was asked, had none to cancel.
  const std::chrono::duration<double> late = asked_at_all ? worked(device, asked, end) : std::chrono::duration<double>::zero();
  if (status.code == QUERN_OK && late < std::chrono::milliseconds(50))
    t.waive("a fast device", "4,000 products end before they can be cancelled");
  t.check(status.code == QUERN_CANCELLED, "the run in flight ends as cancelled [C18]");
  // The chain takes several seconds on any CPU, so 1.5 s still tells an end that was asked for from one that came by itself.
  t.check(late < std::chrono::milliseconds(1500), "and soon [C18]");
  Graph small;
  const std::uint32_t a = small.input({4}), b = small.output({4});
  small.copy(a, b);
  OneCopy one(device, queue);
  t.check(device.api().run_cancel(one.ready.instance().get(), nullptr) == QUERN_OK, "a cancel of an idle instance is nothing [C18]");
  t.check(one.ready.go().code == QUERN_OK && one.at_y.read() == counting(4, 1), "and the next run is free [C18]");
}

void parents_with_children_are_busy(ScriptContext& t) {
  TestHost host;
  const quern_plugin_api& api = t.api();
  quern_plugin* plugin = nullptr;
  quern_device* device = nullptr;
  AbiError error;
  error.check(api.create(host.table(), &plugin, error.get()), "create");
  error.check(api.device_open(plugin, t.device().index(), &device, error.get()), "device_open");
  Graph g;
  const std::uint32_t x = g.input({4}), y = g.output({4});
  g.copy(x, y);
  quern_plan* plan = nullptr;
  quern_compile_options options = compile_options();
  error.check(api.compile(device, g.get(), &options, &plan, error.get()), "compile");
  quern_instance_info info = made<quern_instance_info>(QUERN_TYPE_INSTANCE_INFO);
  quern_instance* instance = nullptr;
  error.check(api.instance_create(plan, nullptr, &instance, &info, error.get()), "instance_create without options");
  AbiError busy;
  check_refused(t, api.plan_destroy(plan, busy.get()), busy, {QUERN_BUSY}, "a plan with a live instance is busy [C27]");
  check_refused(t, api.device_close(device, busy.get()), busy, {QUERN_BUSY}, "a device with a live plan is busy [C27]");
  t.check(api.instance_destroy(instance, error.get()) == QUERN_OK, "the instance goes first [C27]");
  if (api.buffer_create != nullptr) {
    quern_buffer* buffer = nullptr;
    error.check(api.buffer_create(device, nullptr, 64, &buffer, error.get()), "buffer_create");
    t.check(api.plan_destroy(plan, error.get()) == QUERN_OK, "then the plan [C27]");
    check_refused(t, api.device_close(device, busy.get()), busy, {QUERN_BUSY}, "a device with a live buffer is busy [C27]");
    t.check(api.buffer_destroy(buffer, error.get()) == QUERN_OK, "then the buffer [C27]");
  } else {
    t.check(api.plan_destroy(plan, error.get()) == QUERN_OK, "then the plan [C27]");
  }
  t.check(api.device_close(device, error.get()) == QUERN_OK, "then the device [C27]");
  api.destroy(plugin);
  t.check(host.live_blocks() == 0 && host.fault().empty(), "and nothing of the host's memory is left [C27] " + host.fault());
}

void null_handles_are_refused(ScriptContext& t) {
  const quern_plugin_api& api = t.api();
  const DeviceRef device = t.device();
  Queue queue(device);
  OneCopy one(device, queue);
  std::uint32_t number = 0;
  quern_device* opened = nullptr;
  quern_plan* plan = nullptr;
  quern_instance* instance = nullptr;
  quern_device_info device_info = made<quern_device_info>(QUERN_TYPE_DEVICE_INFO);
  quern_instance_info info = made<quern_instance_info>(QUERN_TYPE_INSTANCE_INFO);
  quern_answer answer = made<quern_answer>(QUERN_TYPE_ANSWER);
  quern_counters counters = made<quern_counters>(QUERN_TYPE_COUNTERS);
  quern_plan_info plan_info = made<quern_plan_info>(QUERN_TYPE_PLAN_INFO);
  TestHost host;
  const quern_array none{};
  const auto refused = [&](const char* what, quern_status status, const AbiError& error) {
    check_refused(t, status, error, {QUERN_INVALID_ARGUMENT}, std::string(what) + " is refused [C24]");
  };
#define QUERN_REFUSED(call) \
  do { \
    AbiError e; \
    const quern_status status = (call); \
    refused(#call, status, e); \
  } while (false)
  quern_plugin* plugin = nullptr;
  QUERN_REFUSED(api.create(nullptr, &plugin, e.get()));
  QUERN_REFUSED(api.create(host.table(), nullptr, e.get()));
  QUERN_REFUSED(api.device_count(nullptr, &number, e.get()));
  QUERN_REFUSED(api.device_count(device.plugin(), nullptr, e.get()));
  QUERN_REFUSED(api.device_info(nullptr, 0, &device_info, e.get()));
  QUERN_REFUSED(api.device_info(device.plugin(), 0, nullptr, e.get()));
  QUERN_REFUSED(api.device_open(nullptr, 0, &opened, e.get()));
  QUERN_REFUSED(api.device_open(device.plugin(), 0, nullptr, e.get()));
  QUERN_REFUSED(api.device_close(nullptr, e.get()));
  QUERN_REFUSED(api.support(nullptr, one.graph.get(), nullptr, &answer, e.get()));
  QUERN_REFUSED(api.support(device.handle(), nullptr, nullptr, &answer, e.get()));
  QUERN_REFUSED(api.support(device.handle(), one.graph.get(), nullptr, nullptr, e.get()));
  QUERN_REFUSED(api.compile(nullptr, one.graph.get(), nullptr, &plan, e.get()));
  QUERN_REFUSED(api.compile(device.handle(), nullptr, nullptr, &plan, e.get()));
  QUERN_REFUSED(api.compile(device.handle(), one.graph.get(), nullptr, nullptr, e.get()));
  QUERN_REFUSED(api.plan_destroy(nullptr, e.get()));
  QUERN_REFUSED(api.instance_create(nullptr, nullptr, &instance, &info, e.get()));
  QUERN_REFUSED(api.instance_create(one.plan.get(), nullptr, nullptr, &info, e.get()));
  QUERN_REFUSED(api.instance_destroy(nullptr, e.get()));
  QUERN_REFUSED(api.prepare(nullptr, queue.get(), &none, nullptr, e.get()));
  QUERN_REFUSED(api.prepare(device.handle(), queue.get(), nullptr, nullptr, e.get()));
  QUERN_REFUSED(api.submit(nullptr, queue.get(), &none, e.get()));
  QUERN_REFUSED(api.submit(device.handle(), queue.get(), nullptr, e.get()));
  if (api.probe != nullptr) QUERN_REFUSED(api.probe(nullptr, nullptr, e.get()));
  if (api.plan_info != nullptr) QUERN_REFUSED(api.plan_info(nullptr, &plan_info, e.get()));
  if (api.run_cancel != nullptr) QUERN_REFUSED(api.run_cancel(nullptr, e.get()));
  if (api.counters != nullptr) QUERN_REFUSED(api.counters(nullptr, &counters, e.get()));
  if (api.counters != nullptr) QUERN_REFUSED(api.counters(one.ready.instance().get(), nullptr, e.get()));
#undef QUERN_REFUSED
}

void the_probe_computes(ScriptContext& t) {
  if (t.api().probe == nullptr) t.waive("probe is null", "the plugin has nothing that could be missing");
  TestHost host;
  const OwnDevice own(t, host);
  quern_probe_report report = made<quern_probe_report>(QUERN_TYPE_PROBE_REPORT);
  AbiError error;
  for (int i = 0; i < 2; ++i) {
    error.check(t.api().probe(own.plugin(), &report, error.get()), "probe");
    t.check(report.usable >= 1, "the probe finds the device that is open usable, twice [C8]");
  }
}

void the_probe_refuses(ScriptContext& t) {
  if (t.api().probe == nullptr) t.waive("probe is null", "the plugin has nothing that could be missing");
  TestHost host;
  const OwnDevice own(t, host);
  AbiError error;
  check_refused(t, t.api().probe(own.plugin(), nullptr, error.get()), error, {QUERN_INVALID_ARGUMENT},
                "a probe without a report is refused [C8]");
  quern_probe_report report = made<quern_probe_report>(QUERN_TYPE_PROBE_REPORT);
  report.header.struct_size = 8;
  report.usable = 4711;
  check_refused(t, t.api().probe(own.plugin(), &report, error.get()), error, {QUERN_INVALID_ARGUMENT},
                "a report that is too small is refused [C8]");
  t.check(report.usable == 4711, "and left alone [C8]");
}

}  // namespace

void plans_scripts(CaseSink& sink) {
  add(sink, "plans.ten_thousand_submits", ten_thousand_submits);
  add(sink, "plans.submit_asks_nothing_of_the_system", submit_asks_nothing_of_the_system);
  add(sink, "plans.submit_before_prepare_is_refused", submit_before_prepare_is_refused);
  add(sink, "plans.prepare_writes_nothing_that_is_bound", prepare_writes_nothing_that_is_bound);
  add(sink, "plans.memory_needs_are_repeatable", memory_needs_are_repeatable);
  add(sink, "plans.lists_are_all_or_nothing", lists_are_all_or_nothing);
  add(sink, "plans.lists_run_in_order", lists_run_in_order);
  add(sink, "plans.failed_runs_are_not_sticky", failed_runs_are_not_sticky);
  add(sink, "plans.cancel_ends_a_run", cancel_ends_a_run);
  add(sink, "instances.many_of_a_plan", many_instances_of_a_plan);
  add(sink, "handles.parents_with_children_are_busy", parents_with_children_are_busy);
  add(sink, "handles.null_are_refused", null_handles_are_refused);
  add(sink, "probe.computes", the_probe_computes);
  add(sink, "probe.refuses", the_probe_refuses);
}

}  // namespace quern::conformance::abi
