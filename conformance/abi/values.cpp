// Values that change between runs: patches [C13], predicates [C14], extents [C11].
#include "abi/scripts.hpp"
#include "abi/simple.hpp"

#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace quern::conformance::abi {
namespace {

/// x (input) -> y, s (state) -> z.
struct TwoCopies {
  TwoCopies(DeviceRef device, Queue& queue, std::int64_t count = 8)
      : n(static_cast<std::size_t>(count)),
        at_x(device, queue, counting(n, 1)),
        at_s(device, queue, counting(n, 100)),
        at_w(device, queue, counting(n, 7)),
        at_y(device, queue, std::vector<float>(n, -1)),
        at_z(device, queue, std::vector<float>(n, -1)),
        at_v(device, queue, std::vector<float>(n, -1)),
        plan(device, build(count)),
        ready(device, queue, plan,
              {{x, at_x.span()}, {s, at_s.span()}, {w, at_w.span()}, {y, at_y.span()}, {z, at_z.span()}, {v, at_v.span()}}) {}
  const quern_graph* build(std::int64_t count) {
    x = graph.input({count});
    s = graph.state({count});
    w = graph.constant({count});
    y = graph.output({count});
    z = graph.output({count});
    v = graph.output({count});
    middle = graph.internal({count});
    graph.copy(x, middle);
    graph.copy(middle, y);
    graph.copy(s, z);
    graph.copy(w, v);
    return graph.get();
  }
  std::size_t n;
  Graph graph;
  std::uint32_t x = 0, s = 0, w = 0, y = 0, z = 0, v = 0, middle = 0;
  Floats at_x, at_s, at_w, at_y, at_z, at_v;
  Plan plan;
  Ready ready;
};

void patches_change_inputs_and_state(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  TwoCopies c(device, queue);
  std::vector<float> xs = counting(8, 1), ss = counting(8, 100);
  float first = -5, last = -6, word = 41;
  t.check(c.ready.go({patch_of(c.x, first, 0), patch_of(c.x, last, 28), patch_of(c.s, word, 12)}).code == QUERN_OK,
          "a run with three patches");
  xs[0] = first, xs[7] = last, ss[3] = word;
  t.check(c.at_y.read() == xs && c.at_z.read() == ss, "patches are applied before the first node [C13]");
  t.check(c.ready.go().code == QUERN_OK && c.at_y.read() == xs && c.at_z.read() == ss, "and stay [C13]");
  const float earlier = 1, later = 2;
  t.check(c.ready.go({patch_of(c.s, earlier, 0), patch_of(c.s, later, 0)}).code == QUERN_OK, "two patches of one place");
  ss[0] = later;
  t.check(c.at_z.read() == ss, "the later patch of a place wins [C13]");
  const quern_patch nothing{c.x, 0, 32, 0, nullptr};
  t.check(c.ready.go({nothing}).code == QUERN_OK && c.at_y.read() == xs, "a patch of no bytes at the end changes nothing [C13]");
  t.check(c.at_v.read() == counting(8, 7), "other values keep theirs [C13]");
}

void patches_are_copied_before_submit_returns(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr std::size_t count = 16384;  // 64 KiB of f32: what every plugin takes in one run
  TwoCopies c(device, queue, count);
  std::vector<float> data = counting(count, -3);
  const quern_patch patch{c.x, 0, 0, count * sizeof(float), data.data()};
  quern_run run = c.ready.run();
  run.patches = {&patch, 1, sizeof patch};
  run.sync = queue.next_signal();
  const quern_array runs{&run, 1, sizeof run};
  AbiError error;
  error.check(device.api().submit(device.handle(), queue.get(), &runs, error.get()), "submit of a patch of 64 KiB");
  std::fill(data.begin(), data.end(), -99.0f);
  queue.wait(60);
  t.check(c.at_y.read() == counting(count, -3), "64 KiB of patches are taken, and copied before submit returns [C13]");
}

void bad_patches_are_refused(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  TwoCopies c(device, queue);
  const float data[16] = {};
  const auto refused = [&](const char* what, quern_patch patch) {
    const quern_patch both[] = {patch_of(c.x, data[0], 0), patch};
    quern_run run = c.ready.run();
    run.patches = {both, 2, sizeof both[0]};
    AbiError error;
    check_refused(t, c.ready.submit(run, error), error, {QUERN_INVALID_ARGUMENT}, std::string(what) + " is refused [C13]");
  };
  refused("a patch of a constant", {c.w, 0, 0, 4, data});
  refused("a patch of an output", {c.y, 0, 0, 4, data});
  refused("a patch of an internal value", {c.middle, 0, 0, 4, data});
  refused("a patch of a value that is not there", {77, 0, 0, 4, data});
  refused("a patch that ends behind its value", {c.x, 0, 30, 4, data});
  refused("a patch that starts behind its value", {c.x, 0, 33, 0, data});
  refused("a patch whose end overflows", {c.x, 0, UINT64_MAX - 1, 4, data});
  refused("a patch of bytes at null", {c.x, 0, 0, 4, nullptr});
  t.check(c.at_y.read() == std::vector<float>(8, -1), "nothing was enqueued [C13]");
  t.check(c.at_x.read() == counting(8, 1), "not even the good patch before the bad one [C13]");
}

/// y (state) = x under a scalar predicate, z (state) = x under one number a row.
struct Predicated {
  Predicated(DeviceRef device, Queue& queue, quern_dtype dtype)
      : at_x(device, queue, counting(6, 1)),
        at_y(device, queue, std::vector<float>(6, -1)),
        at_z(device, queue, std::vector<float>(6, -1)),
        at_live(device, queue, {0}),
        at_rows(device, queue, {1, 0, -7}),
        plan(device, build(dtype)),
        ready(device, queue, plan, {{x, at_x.span()}, {y, at_y.span()}, {z, at_z.span()}, {live, at_live.span()}, {rows, at_rows.span()}}) {
  }
  const quern_graph* build(quern_dtype dtype) {
    x = graph.input({3, 2});
    y = graph.state({3, 2});
    z = graph.state({3, 2});
    live = graph.state({1}, dtype);
    rows = graph.input({3}, dtype);
    Graph::predicate(graph.copy(x, y), live);
    Graph::predicate(graph.copy(x, z), rows);
    return graph.get();
  }
  Graph graph;
  std::uint32_t x = 0, y = 0, z = 0, live = 0, rows = 0;
  Floats at_x, at_y, at_z;
  Integers at_live, at_rows;
  Plan plan;
  Ready ready;
};

void a_predicate_of_zero_writes_nothing(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  for (const quern_dtype dtype : {QUERN_I32, QUERN_U32}) {
    Predicated p(device, queue, dtype);
    t.check(p.ready.go().code == QUERN_OK, "a run whose predicate is 0 ends well [C14]");
    t.check(p.at_y.read() == std::vector<float>(6, -1), "a scalar predicate of 0 writes nothing [C14]");
    t.check(p.at_z.read() == std::vector<float>{1, 2, -1, -1, 5, 6}, "a row whose predicate is 0 is not written, all others are [C14]");
    const std::int32_t negative = -1, zero = 0;
    t.check(p.ready.go({patch_of(p.live, negative)}).code == QUERN_OK && p.at_y.read() == counting(6, 1), "any number but 0 writes [C14]");
    p.at_x.write(counting(6, 50));
    t.check(p.ready.go({patch_of(p.live, zero)}).code == QUERN_OK && p.at_y.read() == counting(6, 1),
            "a patch of the predicate holds from the same run on [C14]");
    t.check(p.at_live.read() == std::vector<std::int32_t>{0} && p.at_rows.read() == std::vector<std::int32_t>{1, 0, -7},
            "predicates are read, not written [C14]");
    t.check(p.at_x.intact() && p.at_y.intact() && p.at_z.intact(), "nothing is written beside the values");
  }
}

void predicates_of_other_kinds_are_no(ScriptContext& t) {
  const auto no = [&](const char* what, const Graph::Dims& dims, quern_dtype dtype) {
    Graph g;
    const std::uint32_t x = g.input({3, 2}), y = g.state({3, 2}), p = g.state(dims, dtype);
    Graph::predicate(g.copy(x, y), p);
    check_no(t, g, what);
  };
  no("a predicate of floats [C14]", {1}, QUERN_F32);
  no("a predicate of another number of rows [C14]", {4}, QUERN_I32);
  no("a predicate of two dimensions [C14]", {3, 2}, QUERN_I32);
}

/// A run of which nothing is live reads no weights: under HOST_MEMORY they lie in a page that no one may read; else they are NaN.
void nothing_live_reads_no_weights(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Graph g;
  const std::uint32_t x = g.input({2, 4}), w = g.constant({3, 4}), y = g.state({2, 3}), live = g.state({1}, QUERN_I32);
  Graph::predicate(g.matmul(x, w, y), live);
  Floats at_x(device, queue, counting(8, 1)), at_w(device, queue, counting(12, 1)), at_y(device, queue, std::vector<float>(6, -1));
  Integers at_live(device, queue, {0});
  void* closed = nullptr;
  quern_span weights = at_w.span();
  if (device.host_memory()) {
    closed = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    t.require(closed != MAP_FAILED, "the suite maps a page");
    weights = {nullptr, closed, 0, 48};
  } else {
    at_w.write(std::vector<float>(12, std::numeric_limits<float>::quiet_NaN()));
  }
  const Plan plan(device, g.get());
  Ready ready(device, queue, plan, {{x, at_x.span()}, {w, weights}, {y, at_y.span()}, {live, at_live.span()}});
  t.check(ready.go().code == QUERN_OK, "a run of which nothing is live ends well [C14]");
  t.check(at_y.read() == std::vector<float>(6, -1), "and writes nothing [C14]");
  if (closed != nullptr) ::munmap(closed, 4096);
}

/// y = x over up to `max` rows of 4; the symbol's extent lies in device memory or is the run's bound.
struct Ranged {
  Ranged(DeviceRef device, Queue& queue, std::int64_t max, bool on_device, std::int64_t min = 0, std::vector<quern_bound> bounds = {})
      : rows(static_cast<std::size_t>(max)),
        at_x(device, queue, counting(rows * 4, 1)),
        at_y(device, queue, std::vector<float>(rows * 4, -1)),
        at_count(device, queue, {0}),
        plan(device, build(max, on_device, min)),
        ready(device, queue, plan, spans(on_device), std::move(bounds)) {}
  const quern_graph* build(std::int64_t max, bool on_device, std::int64_t min) {
    x = graph.input({max, 4});
    y = graph.output({max, 4});
    if (on_device) count = graph.state({1}, QUERN_I32);
    symbol = graph.symbol(min, max, count);
    graph.range(x, 0, symbol);
    graph.range(y, 0, symbol);
    graph.copy(x, y);
    return graph.get();
  }
  Spans spans(bool on_device) {
    Spans s{{x, at_x.span()}, {y, at_y.span()}};
    if (on_device) s[count] = at_count.span();
    return s;
  }
  /// What y holds after `n` rows were copied over -1.
  std::vector<float> expected(std::size_t n) const {
    std::vector<float> v(rows * 4, -1);
    const std::vector<float> all = counting(rows * 4, 1);
    std::copy_n(all.begin(), n * 4, v.begin());
    return v;
  }
  void reset() { at_y.write(std::vector<float>(rows * 4, -1)); }
  std::size_t rows;
  Graph graph;
  std::uint32_t x = 0, y = 0, count = QUERN_NONE, symbol = 0;
  Floats at_x, at_y;
  Integers at_count;
  Plan plan;
  Ready ready;
};

void every_bound_of_a_run(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Ranged r(device, queue, 33, false);
  for (std::int64_t n = 33; n >= 0; --n) {
    r.reset();
    t.check(r.ready.go({}, {{r.symbol, 0, n}}).code == QUERN_OK, "a run bounded by " + std::to_string(n) + " rows [C11]");
    t.check(r.at_y.read() == r.expected(static_cast<std::size_t>(n)),
            "writes " + std::to_string(n) + " rows and nothing behind them [C11]");
  }
  r.reset();
  t.check(r.ready.go().code == QUERN_OK && r.at_y.read() == r.expected(33), "without a bound a run has the instance's [C11]");
  t.check(r.at_x.intact() && r.at_y.intact(), "nothing is written beside the values [C11]");
}

void every_extent_on_the_device(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Ranged r(device, queue, 33, true);
  for (std::int32_t n = 0; n <= 33; ++n) {
    r.reset();
    t.check(r.ready.go({patch_of(r.count, n)}).code == QUERN_OK, "a run of " + std::to_string(n) + " rows [C11]");
    t.check(r.at_y.read() == r.expected(static_cast<std::size_t>(n)), "the extent in device memory is the exact one [C11]");
  }
  r.reset();
  const std::int32_t five = 5;
  t.check(r.ready.go({patch_of(r.count, five)}, {{r.symbol, 0, 7}}).code == QUERN_OK && r.at_y.read() == r.expected(5),
          "a bound above the extent changes nothing [C11]");
}

/// Products of every number of rows against exact whole numbers: one plan, its weights bound once.
void every_extent_of_a_product(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr std::int64_t max = 70, k = 24, n = 19;
  Graph g;
  const std::uint32_t x = g.input({max, k}), w = g.constant({n, k}), y = g.output({max, n});
  const std::uint32_t s = g.symbol(1, max);
  g.range(x, 0, s);
  g.range(y, 0, s);
  g.matmul(x, w, y);
  std::vector<float> xs(max * k), ws(n * k);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(static_cast<int>(i * 7 % 13) - 6);
  for (std::size_t i = 0; i < ws.size(); ++i) ws[i] = static_cast<float>(static_cast<int>(i * 5 % 11) - 5);
  const std::vector<float> whole = product(xs, ws, max, n, k);
  Floats at_x(device, queue, xs), at_w(device, queue, ws), at_y(device, queue, std::vector<float>(max * n, -1));
  const Plan plan(device, g.get());
  Ready ready(device, queue, plan, {{x, at_x.span()}, {w, at_w.span()}, {y, at_y.span()}});
  for (std::int64_t m = 1; m <= max; ++m) {
    at_y.write(std::vector<float>(max * n, -1));
    t.check(ready.go({}, {{s, 0, m}}).code == QUERN_OK, "a product of " + std::to_string(m) + " rows");
    std::vector<float> expected(max * n, -1);
    std::copy_n(whole.begin(), m * n, expected.begin());
    t.check(at_y.read() == expected, "a product of " + std::to_string(m) + " rows writes these and nothing behind them [C11]");
  }
}

/// Rows behind the extent are not read: under HOST_MEMORY the page that holds them is closed.
void beyond_the_extent_is_not_read(ScriptContext& t) {
  const DeviceRef device = t.device();
  if (!device.host_memory()) t.waive("no QUERN_CAP_HOST_MEMORY", "a page of device memory cannot be closed");
  Queue queue(device);
  constexpr std::size_t page = 4096;
  auto* memory = static_cast<std::byte*>(::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  t.require(memory != MAP_FAILED, "the suite maps two pages");
  ::mprotect(memory + page, page, PROT_NONE);
  Graph g;
  const std::uint32_t x = g.input({2, 1024}), y = g.output({2, 1024});
  const std::uint32_t s = g.symbol(0, 2);
  g.range(x, 0, s);
  g.range(y, 0, s);
  g.copy(x, y);
  Floats at_y(device, queue, std::vector<float>(2048, -1));
  const Plan plan(device, g.get());
  Ready ready(device, queue, plan, {{x, {nullptr, memory, 0, 2 * page}}, {y, at_y.span()}});
  t.check(ready.go({}, {{s, 0, 1}}).code == QUERN_OK, "a run of the first row alone [C11]");
  std::vector<float> expected(2048, -1);
  std::fill_n(expected.begin(), 1024, 0.0f);
  t.check(at_y.read() == expected, "reads and writes that row only [C11]");
  ::munmap(memory, 2 * page);
}

/// An instance with a lower bound needs memory for that bound only; steps stay those of the largest dims.
void bounds_of_an_instance(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Ranged r(device, queue, 16, false);
  const Plan& plan = r.plan;
  for (const std::int64_t upper : {0, 1, 7, 16}) {
    Floats small_x(device, queue, counting(static_cast<std::size_t>(upper) * 4, 1)),
        small_y(device, queue, std::vector<float>(static_cast<std::size_t>(upper) * 4, -1));
    Ready ready(device, queue, plan, {{r.x, small_x.span()}, {r.y, small_y.span()}}, {{r.symbol, 0, upper}});
    t.check(ready.go().code == QUERN_OK && small_y.read() == counting(static_cast<std::size_t>(upper) * 4, 1),
            "an instance of " + std::to_string(upper) + " rows needs memory for these [C11]");
    t.check(small_x.intact() && small_y.intact(), "and touches no more [C11]");
  }
}

void bad_bounds_are_refused(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Ranged r(device, queue, 16, false, 2, {{0, 0, 8}});
  const auto run_refused = [&](const char* what, const std::vector<quern_bound>& bounds) {
    quern_run run = r.ready.run();
    run.bounds = array_of(bounds);
    AbiError error;
    check_refused(t, r.ready.submit(run, error), error, {QUERN_INVALID_ARGUMENT}, std::string("a run with ") + what + " is refused [C11]");
  };
  run_refused("a bound above its instance's", {{r.symbol, 0, 9}});
  run_refused("a bound below the symbol's min", {{r.symbol, 0, 1}});
  run_refused("a negative bound", {{r.symbol, 0, -1}});
  run_refused("a bound of a symbol that is not there", {{5, 0, 4}});
  t.check(r.at_y.read() == r.expected(0), "nothing was enqueued [C11]");
  const auto instance_refused = [&](const char* what, const std::vector<quern_bound>& bounds) {
    quern_instance_options options = made<quern_instance_options>(QUERN_TYPE_INSTANCE_OPTIONS);
    options.bounds = array_of(bounds);
    options.queue_kind = QUERN_QUEUE_COMPUTE;
    options.max_in_flight = 1;
    quern_instance_info info = made<quern_instance_info>(QUERN_TYPE_INSTANCE_INFO);
    quern_instance* instance = nullptr;
    AbiError error;
    const quern_status status = device.api().instance_create(r.plan.get(), &options, &instance, &info, error.get());
    check_refused(t, status, error, {QUERN_INVALID_ARGUMENT}, std::string("an instance with ") + what + " is refused [C11]");
    if (status == QUERN_OK) device.api().instance_destroy(instance, nullptr);
  };
  instance_refused("a bound above the symbol's max", {{r.symbol, 0, 17}});
  instance_refused("a bound below the symbol's min", {{r.symbol, 0, 1}});
  instance_refused("a bound of a symbol that is not there", {{3, 0, 4}});
}

void bad_extents_fail_the_run(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Ranged r(device, queue, 16, true);
  for (const std::int32_t bad : {17, -1, 1 << 30}) {
    const quern_run_status status = r.ready.go({patch_of(r.count, bad)});
    t.check(status.code == QUERN_INVALID_ARGUMENT, "an extent of " + std::to_string(bad) + " fails the run in its status [C11]");
    t.check(status.rule == 11, "the status names the rule [C18]");
    t.check(r.at_y.read() == r.expected(0), "and nothing is written [C11]");
  }
  const std::int32_t six = 6, good = 4;
  const quern_run_status bounded = r.ready.go({patch_of(r.count, six)}, {{r.symbol, 0, 5}});
  t.check(bounded.code == QUERN_INVALID_ARGUMENT && r.at_y.read() == r.expected(0),
          "an extent above the run's bound fails the run too [C11]");
  t.check(r.ready.go({patch_of(r.count, good)}).code == QUERN_OK && r.at_y.read() == r.expected(4), "a failed run is not sticky [C18]");
}

}  // namespace

void values_scripts(CaseSink& sink) {
  add(sink, "patches.change_inputs_and_state", patches_change_inputs_and_state);
  add(sink, "patches.are_copied_before_submit_returns", patches_are_copied_before_submit_returns);
  add(sink, "patches.bad_are_refused", bad_patches_are_refused);
  add(sink, "predicates.of_zero_write_nothing", a_predicate_of_zero_writes_nothing);
  add(sink, "predicates.of_other_kinds_are_no", predicates_of_other_kinds_are_no);
  add(sink, "predicates.nothing_live_reads_no_weights", nothing_live_reads_no_weights);
  add(sink, "extents.every_bound_of_a_run", every_bound_of_a_run);
  add(sink, "extents.every_extent_on_the_device", every_extent_on_the_device);
  add(sink, "extents.every_extent_of_a_product", every_extent_of_a_product);
  add(sink, "extents.beyond_is_not_read", beyond_the_extent_is_not_read);
  add(sink, "extents.bounds_of_an_instance", bounds_of_an_instance);
  add(sink, "extents.bad_bounds_are_refused", bad_bounds_are_refused);
  add(sink, "extents.bad_extents_fail_the_run", bad_extents_fail_the_run);
}

}  // namespace quern::conformance::abi
