// What long and full sessions do: lists of many runs, plans of many nodes, many plans alive, many opens, faults that come and go [C12 C14 C18 C23].
// Values are read along the way, not only at the end.
#include "abi/counts.hpp"
#include "abi/process_state.hpp"
#include "abi/scripts.hpp"
#include "abi/simple.hpp"
#include "data/data_kind.hpp"
#include "data/tensor.hpp"
#include "device_run/status_words.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

namespace quern::conformance::abi {
namespace {

/// Weights that turn a row of `n` by one place: x w^T has x's last element first.
std::vector<float> turning(std::int64_t n) {
  std::vector<float> w(static_cast<std::size_t>(n * n), 0);
  for (std::int64_t i = 0; i < n; ++i) w[static_cast<std::size_t>(i * n + (i + n - 1) % n)] = 1;
  return w;
}

std::vector<float> turned(const std::vector<float>& row, std::size_t times) {
  std::vector<float> out(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) out[(i + times) % row.size()] = row[i];
  return out;
}

/// y = x turned by one place, z = a state that patches change.
struct Turn {
  static constexpr std::int64_t width = 11;
  Turn() {
    x = graph.input({1, width});
    w = graph.constant({width, width});
    s = graph.state({1});
    y = graph.output({1, width});
    z = graph.output({1});
    graph.matmul(x, w, y);
    graph.copy(s, z);
  }
  Graph graph;
  std::uint32_t x = 0, w = 0, s = 0, y = 0, z = 0;
};

constexpr std::size_t every_list = 8;  // runs that every plugin takes in one list
/// Instances in one list, each reading what the one before wrote; each has a patch and a status of its own.
void list_of(ScriptContext& t, std::size_t runs) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Turn turn;
  const Plan plan(device, turn.graph.get());
  const std::vector<float> row = counting(Turn::width, 3);
  Floats at_w(device, queue, turning(Turn::width));
  std::vector<std::unique_ptr<Floats>> rows, states, copies;
  std::vector<std::unique_ptr<Ready>> ready;
  rows.push_back(std::make_unique<Floats>(device, queue, row));
  for (std::size_t i = 0; i < runs; ++i) {
    rows.push_back(std::make_unique<Floats>(device, queue, std::vector<float>(Turn::width, -1)));
    states.push_back(std::make_unique<Floats>(device, queue, std::vector<float>{-2}));
    copies.push_back(std::make_unique<Floats>(device, queue, std::vector<float>{-3}));
    ready.push_back(std::make_unique<Ready>(device, queue, plan,
                                            Spans{{turn.x, rows[i]->span()},
                                                  {turn.w, at_w.span()},
                                                  {turn.s, states[i]->span()},
                                                  {turn.y, rows[i + 1]->span()},
                                                  {turn.z, copies[i]->span()}}));
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<float> values(runs);
    std::vector<quern_patch> patches(runs);
    std::vector<quern_run_status> statuses(runs, made<quern_run_status>(QUERN_TYPE_RUN_STATUS));
    std::vector<quern_run> list;
    for (std::size_t i = 0; i < runs; ++i) {
      values[i] = static_cast<float>(100 * round + static_cast<int>(i));
      patches[i] = patch_of(turn.s, values[i]);
      statuses[i].code = 77;
      quern_run run = ready[i]->run();
      run.patches = {&patches[i], 1, sizeof patches[i]};
      run.status = &statuses[i];
      list.push_back(run);
    }
    list.back().sync = queue.next_signal();
    const quern_array all = array_of(list);
    AbiError error;
    const std::string what = "submit of a list of " + std::to_string(runs) + " runs";
    const quern_status answered = device.api().submit(device.handle(), queue.get(), &all, error.get());
    if (runs > every_list && answered != QUERN_OK) {  // refused whole
      check_refused(t, answered, error, {QUERN_UNSUPPORTED, QUERN_INVALID_ARGUMENT, QUERN_HOST_OUT_OF_MEMORY}, what.c_str());
      t.check(rows[1]->read() == std::vector<float>(Turn::width, -1), what + " that is refused writes nothing [C18]");
      return;
    }
    error.check(answered, what.c_str());
    queue.wait(60);
    for (std::size_t i = 0; i < runs; ++i) {
      const std::string which = "run " + std::to_string(i + 1) + " of a list of " + std::to_string(runs);
      t.check(statuses[i].code == QUERN_OK && statuses[i].faults == 0, which + " fills its status [C18]");
      t.check(rows[i + 1]->read() == turned(row, i + 1), which + " reads what the run before it wrote, and computes right [C18]");
      t.check(copies[i]->read()[0] == values[i], which + " has its own patch [C13]");
    }
  }
}

void lists_of_runs(ScriptContext& t) {
  for (const std::size_t runs : counts_of("runs_a_list")) list_of(t, runs);
}

/// One instance many times in a list, as sessions hand steps over: its state goes on from run to run.
void lists_of_steps(ScriptContext& t) {
  const DeviceRef device = t.device();
  if (!device.synchronous()) t.waive("no QUERN_CAP_SYNCHRONOUS", "how many runs of one instance may be in flight is the device's");
  Queue queue(device);
  Graph g;
  const std::uint32_t state = g.state({1, Turn::width}), w = g.constant({Turn::width, Turn::width}), middle = g.internal({1, Turn::width});
  g.matmul(state, w, middle);
  g.copy(middle, state);
  const Plan plan(device, g.get());
  const std::vector<float> row = counting(Turn::width, 3);
  Floats at_state(device, queue, row), at_w(device, queue, turning(Turn::width));
  Ready ready(device, queue, plan, {{state, at_state.span()}, {w, at_w.span()}});
  std::size_t steps = 0;
  for (const std::size_t count : {1u, 2u, 4u, 8u, 9u, 16u, 40u}) {
    std::vector<quern_run> list(count, ready.run());
    const quern_array all = array_of(list);
    AbiError error;
    error.check(device.api().submit(device.handle(), queue.get(), &all, error.get()), "submit of steps");
    steps += count;
    t.check(at_state.read() == turned(row, steps), "each of " + std::to_string(count) + " steps in one list is done once, in order [C18]");
  }
}

/// Two hundred plans alive, each with weights of its own; the first compiled runs last and again first.
void many_plans_alive(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr int count = 200, k = 8, n = 3;
  quern_compile_options options = compile_options();
  options.effort = 0;
  struct One {
    One(DeviceRef device, Queue& queue, int i, const quern_compile_options& options)
        : rows(1 + i % 5),
          first(static_cast<float>(i)),
          plan(device, build(), options),
          at_x(device, queue, counting(static_cast<std::size_t>(rows * k), -4)),
          at_w(device, queue, counting(n * k, first)),
          at_y(device, queue, std::vector<float>(static_cast<std::size_t>(rows * n), -1)),
          ready(device, queue, plan, {{x, at_x.span()}, {w, at_w.span()}, {y, at_y.span()}}) {}
    const quern_graph* build() {
      x = graph.input({rows, k});
      w = graph.constant({n, k});
      y = graph.output({rows, n});
      graph.matmul(x, w, y);
      return graph.get();
    }
    bool right() {
      at_y.write(std::vector<float>(static_cast<std::size_t>(rows * n), -1));
      return ready.go().code == QUERN_OK &&
             at_y.read() == product(counting(static_cast<std::size_t>(rows * k), -4), counting(n * k, first), rows, n, k);
    }
    std::int64_t rows;
    float first;
    Graph graph;
    std::uint32_t x = 0, w = 0, y = 0;
    Plan plan;
    Floats at_x, at_w, at_y;
    Ready ready;
  };
  std::vector<std::unique_ptr<One>> plans;
  plans.push_back(std::make_unique<One>(device, queue, 0, options));
  const bool told = device.api().plan_info != nullptr;
  const quern_plan_info first = told ? plans[0]->plan.info() : quern_plan_info{};
  const auto names = [&] {
    std::string text;
    for (std::uint64_t i = 0; i < first.kernels.count; ++i) {
      const auto& kernel =
          *reinterpret_cast<const quern_kernel_info*>(static_cast<const std::byte*>(first.kernels.data) + i * first.kernels.stride);
      text.append(kernel.name.data, kernel.name.size) += '\n';
    }
    return text;
  };
  const std::string kernels = names();
  for (int i = 1; i < count; ++i) plans.push_back(std::make_unique<One>(device, queue, i, options));
  t.check(names() == kernels, "what plan_info gave lives as long as its plan [C29]");
  for (int i = 0; i < count; ++i)
    t.check(plans[static_cast<std::size_t>(i)]->right(), "of 200 plans alive each computes its own, not so plan " + std::to_string(i));
  for (int i = count; i-- > 0;)
    t.check(plans[static_cast<std::size_t>(i)]->right(), "and again in another order, not so plan " + std::to_string(i));
  plans.erase(plans.begin(), plans.begin() + 150);
  for (const auto& one : plans) t.check(one->right(), "those that are left compute when 150 are gone");
}

/// A plan of a thousand nodes: each turns a row by one place, each hundredth result is seen.
void thousand_nodes(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr std::int64_t n = 7;
  constexpr std::size_t nodes = 1000, seen_each = 100;
  const std::vector<float> row = counting(n, 2);
  Floats at_x(device, queue, row), at_w(device, queue, turning(n));
  for (const std::uint32_t fusion : {1u, 0u}) {
    Graph g;
    const std::uint32_t x = g.input({1, n}), w = g.constant({n, n});
    Spans spans{{x, at_x.span()}, {w, at_w.span()}};
    std::vector<std::unique_ptr<Floats>> seen;
    std::uint32_t before = x;
    for (std::size_t i = 1; i <= nodes; ++i) {
      const std::uint32_t next = g.internal({1, n});
      g.matmul(before, w, next);
      before = next;
      if (i % seen_each != 0) continue;
      const std::uint32_t y = g.output({1, n});
      g.copy(next, y);
      seen.push_back(std::make_unique<Floats>(device, queue, std::vector<float>(n, -1)));
      spans[y] = seen.back()->span();
    }
    quern_compile_options options = compile_options();
    options.fusion = fusion;
    const Plan plan(device, g.get(), options);
    Ready ready(device, queue, plan, spans);
    t.check(ready.go().code == QUERN_OK, "a plan of 1,000 nodes runs");
    for (std::size_t i = 0; i < seen.size(); ++i)
      t.check(seen[i]->read() == turned(row, (i + 1) * seen_each),
              "node " + std::to_string((i + 1) * seen_each) + " of 1,000 computes right");
  }
}

/// Rows of a table; an index out of range is a row of zeros and INDEX_RANGE.
struct Rows {
  Rows(DeviceRef device, Queue& queue)
      : at_table(device, queue, counting(12, 1)),
        at_index(device, queue, {0, 1}),
        at_y(device, queue, std::vector<float>(8, -1)),
        plan(device, build()),
        ready(device, queue, plan, spans()) {}
  const quern_graph* build() {
    table = graph.constant({3, 4});
    index = graph.input({2}, QUERN_I32);
    y = graph.output({2, 4});
    graph.node(QUERN_OP_GET_ROWS, {table, index}, {y});
    return graph.get();
  }
  Spans spans() const { return {{table, at_table.span()}, {index, at_index.span()}, {y, at_y.span()}}; }
  Graph graph;
  std::uint32_t table = 0, index = 0, y = 0;
  Floats at_table;
  Integers at_index;
  Floats at_y;
  Plan plan;
  Ready ready;
};

void faults_do_not_stick(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Rows rows(device, queue);
  Floats other_y(device, queue, std::vector<float>(8, -1));
  Spans other = rows.spans();
  other[rows.y] = other_y.span();
  Ready beside(device, queue, rows.plan, other);
  OneCopy copy(device, queue);
  const std::int32_t bad = 3, good = 2;
  const std::vector<float> clean = {1, 2, 3, 4, 9, 10, 11, 12}, fault = {1, 2, 3, 4, 0, 0, 0, 0};
  for (int round = 0; round < 3; ++round) {
    t.check(rows.ready.go({patch_of(rows.index, good, 4)}).faults == 0 && rows.at_y.read() == clean, "a clean run has no faults [C18]");
    t.check(rows.ready.go({patch_of(rows.index, bad, 4)}).faults == QUERN_FAULT_INDEX_RANGE && rows.at_y.read() == fault,
            "an index out of range raises INDEX_RANGE and is a row of zeros [C21]");
    t.check(copy.ready.go().faults == 0, "a run of another plan behind it has no faults [C18]");
    t.check(beside.go({patch_of(rows.index, good, 4)}).faults == 0, "nor has one of another instance [C18]");
    t.check(rows.ready.go().faults == 0 && rows.at_y.read() == clean, "nor the next clean run of the same instance [C18]");
  }
  // In one list: the middle one of three has the fault.
  const quern_patch patches[] = {patch_of(rows.index, good, 4), patch_of(rows.index, bad, 4), patch_of(rows.index, good, 4)};
  quern_run_status statuses[3];
  quern_run runs[3];
  for (int i = 0; i < 3; ++i) {
    statuses[i] = made<quern_run_status>(QUERN_TYPE_RUN_STATUS);
    runs[i] = (i == 2 ? beside : rows.ready).run();
    runs[i].patches = {&patches[i], 1, sizeof patches[i]};
    runs[i].status = &statuses[i];
  }
  if (!device.synchronous()) return;  // how many runs of one instance may be in flight is the device's
  const quern_array list{runs, 3, sizeof runs[0]};
  AbiError error;
  error.check(device.api().submit(device.handle(), queue.get(), &list, error.get()), "submit of three runs");
  t.check(statuses[0].faults == 0 && statuses[1].faults == QUERN_FAULT_INDEX_RANGE && statuses[2].faults == 0,
          "in a list the faults are those of the run that raised them [C18]");
}

/// Statuses are filled whole, and what they name is true.
void statuses_are_true(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Graph g;
  const std::uint32_t x = g.input({4, 2}), y = g.output({4, 2}), a = g.input({3}), b = g.output({3}), count = g.state({1}, QUERN_I32);
  const std::uint32_t s = g.symbol(0, 4, count);
  g.range(x, 0, s);
  g.range(y, 0, s);
  g.copy(a, b);  // node 0, which has nothing of the symbol
  g.copy(x, y);  // node 1
  const Plan plan(device, g.get());
  Floats at_x(device, queue, counting(8, 1)), at_y(device, queue, std::vector<float>(8, -1)), at_a(device, queue, counting(3, 1)),
      at_b(device, queue, std::vector<float>(3, -1));
  Integers at_count(device, queue, {4});
  Ready ready(device, queue, plan, {{x, at_x.span()}, {y, at_y.span()}, {a, at_a.span()}, {b, at_b.span()}, {count, at_count.span()}});
  for (const std::int32_t rows : {4, 9, 0, -1, 3}) {
    const bool fine = rows >= 0 && rows <= 4;
    at_count.write({rows});
    quern_run_status status = made<quern_run_status>(QUERN_TYPE_RUN_STATUS);
    status.code = 77, status.node = 4711, status.op = 4712, status.rule = 4713, status.faults = ~0ull;
    quern_run run = ready.run();
    run.status = &status;
    AbiError error;
    error.check(ready.submit(run, error), "submit");
    const std::string which = "a run of " + std::to_string(rows) + " rows of 4";
    t.check(status.code == (fine ? QUERN_OK : QUERN_INVALID_ARGUMENT), which + " ends with its code [C18]: expected " +
                                                                           status_words(fine ? QUERN_OK : QUERN_INVALID_ARGUMENT) +
                                                                           ", found " + status_words(status.code));
    t.check(status.faults == 0, which + " raises no fault [C18]");
    if (fine) {
      t.check(status.node == QUERN_NONE,
              which + " failed nowhere, so its status names no node [C18], found " + std::to_string(status.node));
      t.check(status.rule == 0, which + " broke no rule, so its status names none [C18], found " + std::to_string(status.rule));
    } else {
      t.check(status.node == QUERN_NONE || status.node == 1,
              which + " names the node that has these rows, or none [C18], found " + std::to_string(status.node));
      t.check(status.node == QUERN_NONE || status.op == QUERN_OP_COPY,
              which + " names that node's op [C18], found " + std::to_string(status.op));
      t.check(status.rule == 0 || status.rule == 11,
              which + " names the rule that was broken, or none [C18], found " + std::to_string(status.rule));
    }
  }
}

/// Any number but 0 is true, whatever its bits: one number for all rows, and one a row.
void any_number_but_zero_writes(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr std::int32_t values[] = {1, 2, 4, 128, 256, 512, 65536, 1 << 24, 1 << 30, INT32_MIN, -2, -256, INT32_MAX, 0x7f800000};
  constexpr std::int64_t count = std::size(values);
  for (const quern_dtype dtype : {QUERN_I32, QUERN_U32}) {
    Graph g;
    const std::uint32_t x = g.input({count + 1, 2}), y = g.state({count + 1, 2}), z = g.state({count + 1, 2}), live = g.state({1}, dtype),
                        rows = g.input({count + 1}, dtype), w = g.constant({2, 2}), p = g.state({count + 1, 2});
    Graph::predicate(g.copy(x, y), live);
    Graph::predicate(g.copy(x, z), rows);
    Graph::predicate(g.matmul(x, w, p), live);
    const std::vector<float> xs = counting(2 * (count + 1), 1), mark(2 * (count + 1), -1);
    std::vector<std::int32_t> each(values, values + count);
    each.push_back(0);
    std::vector<float> all_but_last = xs;
    all_but_last[2 * count] = all_but_last[2 * count + 1] = -1;
    Floats at_x(device, queue, xs), at_y(device, queue, mark), at_z(device, queue, mark), at_w(device, queue, {1, 0, 0, 1}),
        at_p(device, queue, mark);
    Integers at_live(device, queue, {0}), at_rows(device, queue, each);
    const Plan plan(device, g.get());
    Ready ready(device, queue, plan,
                {{x, at_x.span()},
                 {y, at_y.span()},
                 {z, at_z.span()},
                 {live, at_live.span()},
                 {rows, at_rows.span()},
                 {w, at_w.span()},
                 {p, at_p.span()}});
    for (const std::int32_t value : values) {
      const std::string which = "a predicate of " + std::to_string(value);
      for (Floats* state : {&at_y, &at_z, &at_p}) state->write(mark);
      at_live.write({value});
      t.check(ready.go().code == QUERN_OK && at_y.read() == xs && at_p.read() == xs, which + " writes [C14]");
      t.check(at_z.read() == all_but_last, "of rows with a number each those are written whose number is not 0 [C14]");
      at_y.write(mark);
      at_live.write({0});
      t.check(ready.go({patch_of(live, value)}).code == QUERN_OK && at_y.read() == xs, which + " that a patch brings writes [C14]");
    }
  }
}

/// A device is opened and closed a thousand times, and many are open at once.
void a_thousand_opens(ScriptContext& t) {
  const std::uint32_t kind = t.device().info().device_class;
  // A driver takes long over its context; what adds up there shows in tens.
  const int opens = kind == QUERN_DEVICE_CPU || kind == QUERN_DEVICE_OTHER ? 1000 : 20, at_once = opens / 20;
  TestHost host;
  const OwnDevice own(t, host);
  const quern_plugin_api& api = t.api();
  const auto open = [&](int number) {
    quern_device* device = nullptr;
    AbiError error;
    const quern_status status = api.device_open(own.plugin(), t.device().index(), &device, error.get());
    t.require(status == QUERN_OK && device != nullptr,
              "open " + std::to_string(number) + " of " + std::to_string(opens) + " answers OK [C23]: " + error.text());
    return device;
  };
  for (int i = 0; i < at_once; ++i) t.require(api.device_close(open(i), nullptr) == QUERN_OK, "a device closes");
  const ProcessState before = ProcessState::now();
  const std::uint64_t blocks = host.live_blocks();
  for (int i = at_once; i < opens; ++i) t.require(api.device_close(open(i), nullptr) == QUERN_OK, "a device closes");
  const std::string changed = before.difference(ProcessState::now());
  t.check(changed.empty(), "opens leave nothing behind [C9]: " + changed);
  t.check(host.live_blocks() == blocks && host.fault().empty(), "nor of the host's memory [C9] " + host.fault());
  std::vector<quern_device*> devices;
  for (int i = 0; i < at_once; ++i) devices.push_back(open(i));
  {
    Queue queue(own.ref());
    TwoNodes two(own.ref(), queue);
    t.check(two.ready.go().code == QUERN_OK && two.at_z.read() == two.expected(), "a device computes while many are open");
  }
  for (quern_device* device : devices) t.check(api.device_close(device, nullptr) == QUERN_OK, "each of them closes");
  for (int i = 0; i < opens / 5; ++i) {
    quern_plugin* plugin = nullptr;
    AbiError error;
    t.require(api.create(host.table(), &plugin, error.get()) == QUERN_OK && plugin != nullptr,
              "create " + std::to_string(i) + " answers OK [C7]: " + error.text());
    api.destroy(plugin);
  }
  t.check(host.live_blocks() == blocks && host.fault().empty(), "nor do handles leave any of the host's memory [C7] " + host.fault());
}

}  // namespace

void sessions_scripts(CaseSink& sink) {
  add(sink, "plans.lists_of_runs", lists_of_runs);
  add(sink, "plans.lists_of_steps", lists_of_steps);
  add(sink, "plans.many_alive", many_plans_alive);
  add(sink, "plans.thousand_nodes", thousand_nodes);
  add(sink, "plans.faults_do_not_stick", faults_do_not_stick, level_inference);
  add(sink, "plans.statuses_are_true", statuses_are_true);
  add(sink, "predicates.any_number_but_zero_writes", any_number_but_zero_writes);
  add(sink, "hosts.a_thousand_opens", a_thousand_opens);
}

}  // namespace quern::conformance::abi
