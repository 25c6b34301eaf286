// What long and full sessions do: lists of many runs, plans of many nodes, many plans alive, many opens, large and many patches, and what
// runs and plans say of themselves [C12 C13 C14 C17 C18 C23 C29]. Values are read along the way, not only at the end.
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

/// The counts of counts.def on an axis.
std::vector<std::size_t> counts_of(std::string_view axis) {
  constexpr std::pair<std::string_view, std::size_t> all[] = {
#define QUERN_ABI_COUNT(axis, value) {#axis, value},
#include "abi/counts.def"
#undef QUERN_ABI_COUNT
  };
  std::vector<std::size_t> counts;
  for (const auto& [name, count] : all)
    if (name == axis) counts.push_back(count);
  return counts;
}

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

/// plan_info: each node is in one kernel, and there are as many launches as kernels at least.
void plans_say_what_they_run(ScriptContext& t) {
  const DeviceRef device = t.device();
  if (device.api().plan_info == nullptr) t.waive("plan_info is null", "the plugin says nothing of its plans");
  for (const std::size_t nodes : {1u, 2u, 9u, 70u})
    for (const std::uint32_t fusion : {0u, 1u}) {
      Graph g;
      const std::uint32_t x = g.input({1, 8}), w = g.constant({8, 8});
      std::uint32_t before = x;
      for (std::size_t i = 0; i < nodes; ++i) {
        const std::uint32_t next = i + 1 == nodes ? g.output({1, 8}) : g.internal({1, 8});
        if (i % 3 == 1) g.copy(before, next);
        else g.matmul(before, w, next);
        before = next;
      }
      quern_compile_options options = compile_options();
      options.fusion = fusion;
      const Plan plan(device, g.get(), options);
      const quern_plan_info info = plan.info();
      const std::string which = "a plan of " + std::to_string(nodes) + " nodes";
      std::multiset<std::uint64_t> covered;
      for (std::uint64_t i = 0; i < info.kernels.count; ++i) {
        const auto& kernel =
            *reinterpret_cast<const quern_kernel_info*>(static_cast<const std::byte*>(info.kernels.data) + i * info.kernels.stride);
        t.check(kernel.name.size != 0 && kernel.name.data != nullptr, which + " names each kernel [C29]");
        t.require(kernel.node_count >= 1 && kernel.node_count <= nodes, which + " has kernels of its nodes [C29]");
        for (std::uint32_t n = 0; n < kernel.node_count; ++n) covered.insert(std::uint64_t{kernel.node} + n);
      }
      bool once = covered.size() == nodes;
      for (std::size_t n = 0; once && n < nodes; ++n) once = covered.contains(n);
      t.check(once, which + " has each node in one kernel [C29], fusion " + std::to_string(fusion));
      t.check(info.launches >= 1, which + " says that it launches [C29]");
      if (fusion == 0)
        t.check(info.launches >= nodes,
                which + " launches each of them where nothing is fused [C29], found " + std::to_string(info.launches));
      t.check(info.determinism <= QUERN_DETERMINISM_INVARIANT, which + " says how determined it is [C17]");
    }
}

template <class T>
std::vector<T> told_list(const quern_array& list) {
  std::vector<T> result;
  for (std::uint64_t i = 0; i < list.count; ++i)
    result.push_back(*reinterpret_cast<const T*>(static_cast<const std::byte*>(list.data) + i * list.stride));
  return result;
}

/// One schedule: each node in one kernel, and who stands alone is a kernel of one node.
void check_schedule(ScriptContext& t, const quern_schedule_info& schedule, std::size_t nodes, const std::string& which) {
  t.require(schedule.kernels.count == 0 || schedule.kernels.stride >= sizeof(quern_kernel_info),
            which + " lists kernels of this minor [C2]");
  std::vector<std::size_t> computed(nodes, 0), together(nodes, 0);  // how often, and of how many nodes the kernel is
  for (const quern_kernel_info& kernel : told_list<quern_kernel_info>(schedule.kernels)) {
    t.check(kernel.name.size != 0 && kernel.name.data != nullptr, which + " names each kernel [C29]");
    t.check(kernel.node < nodes, which + " has kernels of its nodes [C29], found node " + std::to_string(kernel.node));
    std::vector<std::uint32_t> of = told_list<std::uint32_t>(kernel.nodes);
    t.check(of.empty() || of.size() == kernel.node_count, which + " lists as many nodes of a kernel as it counts [C29]");
    if (kernel.nodes.count == 0)
      for (std::uint32_t n = 0; n < kernel.node_count; ++n) of.push_back(kernel.node + n);
    for (const std::uint32_t n : of) {
      t.require(n < nodes, which + " has no kernel of node " + std::to_string(n) + ", which the graph has not [C29]");
      ++computed[n];
      together[n] = of.size();
    }
  }
  for (std::size_t n = 0; n < nodes; ++n)
    t.check(computed[n] == 1,
            which + " has node " + std::to_string(n) + " in one kernel [C29], found it in " + std::to_string(computed[n]));
  std::set<std::uint32_t> seen;
  for (const quern_alone_info& alone : told_list<quern_alone_info>(schedule.alone)) {
    const std::string node = "node " + std::to_string(alone.node);
    t.require(alone.node < nodes, which + " has no " + node + " that could stand alone [C29]");
    t.check(seen.insert(alone.node).second, which + " says once that " + node + " stands alone [C29]");
    t.check(together[alone.node] == 1, which + " has " + node + ", which stands alone, in a kernel of its own [C29]");
    t.check(alone.reason.size != 0 && alone.reason.data != nullptr, which + " says why " + node + " stands alone [C29]");
    t.check((alone.flags & ~QUERN_ALONE_COMPLETE) == 0, which + " has no flag that is not known [C3]");
  }
}

/// For rows of one kind: each number of rows has one schedule.
void check_rows(ScriptContext& t, const std::vector<quern_schedule_info>& schedules, const quern_graph& graph, std::uint32_t rows,
                const std::string& which) {
  std::vector<quern_schedule_info> of;
  for (const quern_schedule_info& schedule : schedules)
    if (schedule.rows == QUERN_ROWS_ANY || schedule.rows == rows) of.push_back(schedule);
  t.require(!of.empty(), which + " serves rows of each kind [C29], found none of kind " + std::to_string(rows));
  if (of.front().symbol == QUERN_NONE) {
    t.check(of.size() == 1 && schedules.size() == 1, which + " has one schedule where that serves every run [C29]");
    return;
  }
  std::ranges::sort(of, {}, &quern_schedule_info::least);
  const std::uint32_t symbol = of.front().symbol;
  t.require(symbol < graph.symbols.count, which + " chooses by an extent that the graph has [C29], found symbol " + std::to_string(symbol));
  const quern_symbol s = told_list<quern_symbol>(graph.symbols)[symbol];
  std::int64_t next = std::max<std::int64_t>(1, s.min);
  for (const quern_schedule_info& schedule : of) {
    t.check(schedule.symbol == symbol, which + " chooses by one extent [C29]");
    t.check(schedule.least == next && schedule.least <= schedule.most,
            which + " serves each number of rows once [C29]: expected a schedule from " + std::to_string(next) + ", found " +
                std::to_string(schedule.least) + " to " + std::to_string(schedule.most) + ", rows of kind " + std::to_string(rows));
    next = schedule.most + 1;
  }
  t.check(next == s.max + 1, which + " serves up to " + std::to_string(s.max) + " rows [C29], found " + std::to_string(next - 1));
}

/// A norm, gate and up, their activation, the product behind it and a sum, and a head of rows that are picked.
struct Gated {
  static constexpr std::int64_t width = 256, most = 70, outputs = 9;
  Gated(bool ranged, bool predicate) {
    const auto inner = [&](std::int64_t rows) { return graph.internal({rows, width}); };
    const std::uint32_t x = graph.input({most, width}), norm = graph.constant({width}), row = graph.input({outputs}, QUERN_I32);
    const std::uint32_t normed = inner(most), gate = inner(most), up = inner(most), active = inner(most), down = inner(most),
                        sum = inner(most), picked = inner(outputs);
    const std::uint32_t logits = graph.output({outputs, width}), y = graph.output({most, width});
    graph.node(QUERN_OP_RMS_NORM, {x, norm}, {normed}, {real(QUERN_KEY_EPSILON, 1e-5)});
    const auto product = [&](std::uint32_t a, std::uint32_t to) {
      quern_node& node = graph.matmul(a, graph.constant({width, width}, QUERN_Q8_0), to);
      node.conversions = QUERN_CONVERT_INT8 | QUERN_CONVERT_F16 | QUERN_CONVERT_BF16 | QUERN_CONVERT_TF32;
      node.determinism = QUERN_DETERMINISM_REPEATABLE;
      node.uses |= QUERN_NODE_USES_PRECISION | QUERN_NODE_USES_DETERMINISM;
    };
    product(normed, gate);
    product(normed, up);
    graph.node(QUERN_OP_GLU, {gate, up}, {active});
    if (predicate) Graph::predicate(graph.nodes.back(), graph.state({1}, QUERN_I32));
    product(active, down);
    graph.node(QUERN_OP_ADD, {x, down}, {sum});
    graph.node(QUERN_OP_GET_ROWS, {sum, row}, {picked});
    product(picked, logits);
    graph.copy(sum, y);
    if (!ranged) return;
    const std::uint32_t rows = graph.symbol(1, most), some = graph.symbol(0, outputs);
    for (const std::uint32_t v : {x, normed, gate, up, active, down, sum, y}) graph.range(v, 0, rows);
    for (const std::uint32_t v : {row, picked, logits}) graph.range(v, 0, some);
  }
  Graph graph;
};

/// plan_info has every schedule with the rows that it serves, each node in one kernel of each, and why nodes stand alone.
void plans_say_what_serves_which_rows(ScriptContext& t) {
  const DeviceRef device = t.device();
  if (device.api().plan_info == nullptr) t.waive("plan_info is null", "the plugin says nothing of its plans");
  bool any = false;
  for (const bool ranged : {true, false})
    for (const bool predicate : {false, true})
      for (const std::uint32_t fusion : {1u, 0u}) {
        Gated gated(ranged, predicate);
        const std::vector<Answer> answers = ask(device, gated.graph.get());
        if (std::ranges::any_of(answers, [](const Answer& a) { return a.verdict != QUERN_ANSWER_YES; })) continue;
        quern_compile_options options = compile_options();
        options.fusion = fusion;
        const Plan plan(device, gated.graph.get(), options);
        const quern_plan_info info = plan.info();
        if (info.header.struct_size < sizeof info || info.schedules.count == 0)
          t.waive("plan_info has no schedules", "the plugin does not tell, as one of minor 0 cannot");
        any = true;
        const std::string which = std::string("a plan of ") + (ranged ? "ranged" : "fixed") + " rows" +
                                  (predicate ? ", one node under a condition" : "") + (fusion != 0 ? "" : ", without fusion");
        t.require(info.schedules.stride >= sizeof(quern_schedule_info), which + " lists schedules of this minor [C2]");
        const auto schedules = told_list<quern_schedule_info>(info.schedules);
        for (const quern_schedule_info& schedule : schedules) check_schedule(t, schedule, gated.graph.nodes.size(), which);
        for (const std::uint32_t rows : {QUERN_ROWS_OF_SEQUENCES, QUERN_ROWS_OF_ONE_SEQUENCE})
          check_rows(t, schedules, *gated.graph.get(), rows, which);
        if (fusion != 0) continue;
        for (const quern_schedule_info& schedule : schedules)
          t.check(schedule.alone.count == gated.graph.nodes.size(), which + " has each node alone [C29]");
      }
  if (!any) t.waive("no such graph is taken", "the plugin computes no products of q8_0 with their norm, activation and sum");
}

/// Where two plans of the same product give other bits, their numerics keys are others too.
void other_bits_other_keys(ScriptContext& t) {
  const DeviceRef device = t.device();
  if (device.api().plan_info == nullptr) t.waive("plan_info is null", "no numerics key is told");
  Queue queue(device);
  constexpr std::int64_t rows = 5, n = 32, k = 512;
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_Q8_0, QUERN_Q4_0, QUERN_Q4_K}) {
    Tensor weights(dtype, {n, k}), x(QUERN_F32, {rows, k});
    fill(weights, DataKind::gaussian, CounterRandom::of(t.case_name() + std::to_string(dtype)));
    fill(x, DataKind::gaussian, CounterRandom::of(t.case_name()));
    Region at_w(device, queue, weights.bytes().size(), 0, true), at_x(device, queue, x.bytes().size(), 0, true);
    at_w.write(weights.bytes());
    at_x.write(x.bytes());
    struct Result {
      std::string what;
      std::uint64_t key;
      std::vector<float> y;
    };
    std::vector<Result> results;
    const auto run = [&](const std::string& what, std::uint32_t conversions, std::uint32_t determinism, bool packed) {
      Graph g;
      const std::uint32_t a = g.input({rows, k}), w = g.constant({n, k}, dtype), y = g.output({rows, n});
      quern_node& node = g.matmul(a, w, y);
      node.uses |= QUERN_NODE_USES_PRECISION | QUERN_NODE_USES_DETERMINISM;
      node.conversions = conversions;
      node.determinism = determinism;
      std::unique_ptr<Region> memory;
      std::string layout;
      if (packed) {
        const quern_graph* graph = g.get();
        const quern_array graphs{&graph, 1, sizeof graph};
        quern_array items{};
        AbiError error;
        error.check(device.api().weights_plan(device.handle(), &graphs, 0, &items, error.get()), "weights_plan");
        if (items.count == 0) return;
        const auto& item = *static_cast<const quern_weight_item*>(items.data);
        layout.assign(item.layout_key.data, item.layout_key.size);
        memory = std::make_unique<Region>(device, queue, item.bytes, item.alignment, false);
        const quern_span from = at_w.span(), to = memory->span();
        const quern_array sources{&from, 1, sizeof from}, destination{&to, 1, sizeof to};
        const quern_status status =
            device.api().weights_pack(device.handle(), queue.get(), &item, &sources, &destination, queue.next_signal(), error.get());
        if (status == QUERN_OK) queue.wait(60);
        device.api().weights_release(device.handle(), &items, nullptr);
        error.check(status, "weights_pack");
        g.values[w].layout = {layout.data(), layout.size()};
        g.values[w].uses |= QUERN_VALUE_USES_LAYOUT;
      }
      if (ask(device, g.get())[0].verdict != QUERN_ANSWER_YES) return;
      const Plan plan(device, g.get());
      Floats at_y(device, queue, std::vector<float>(rows * n, -1));
      Ready ready(device, queue, plan, {{a, at_x.span()}, {w, packed ? memory->span() : at_w.span()}, {y, at_y.span()}});
      t.check(ready.go().code == QUERN_OK, "a product runs");
      results.push_back({what, plan.info().numerics_key, at_y.read()});
    };
    constexpr std::uint32_t fast = QUERN_CONVERT_INT8 | QUERN_CONVERT_F16 | QUERN_CONVERT_BF16 | QUERN_CONVERT_TF32;
    for (const bool packed : {false, true}) {
      if (packed && device.api().weights_plan == nullptr) continue;
      const std::string form = packed ? ", packed" : ", canonical";
      run("exact" + form, 0, QUERN_DETERMINISM_REPEATABLE, packed);
      run("fast" + form, fast, QUERN_DETERMINISM_REPEATABLE, packed);
      run("exact and invariant" + form, 0, QUERN_DETERMINISM_INVARIANT, packed);
      run("fast and invariant" + form, fast, QUERN_DETERMINISM_INVARIANT, packed);
    }
    for (const Result& one : results)
      for (const Result& two : results)
        t.check(one.key != two.key || std::memcmp(one.y.data(), two.y.data(), one.y.size() * sizeof(float)) == 0,
                "plans with one numerics key give the same bits [C17]: " + one.what + " and " + two.what + ", weights of dtype " +
                    std::to_string(dtype));
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

/// Patches of one run, at each count and each size of counts.def. Bytes from 0x30 to 0x3f make normal numbers wherever a patch begins.
void patches_of_every_count(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr std::size_t count = 32768;  // f32
  Graph g;
  const std::uint32_t x = g.input({count}), s = g.state({count}), y = g.output({count}), z = g.output({count});
  g.copy(x, y);
  g.copy(s, z);
  const Plan plan(device, g.get());
  std::vector<float> xs = counting(count, 1), ss = counting(count, -7);
  Floats at_x(device, queue, xs), at_s(device, queue, ss), at_y(device, queue, std::vector<float>(count)),
      at_z(device, queue, std::vector<float>(count));
  Ready ready(device, queue, plan, {{x, at_x.span()}, {s, at_s.span()}, {y, at_y.span()}, {z, at_z.span()}});
  std::vector<std::byte> data(2 * count);
  std::vector<quern_patch> patches;
  unsigned round = 0;
  const auto add_patch = [&](std::uint32_t value, std::size_t offset, std::size_t from, std::size_t bytes) {
    patches.push_back({value, 0, offset, bytes, &data[from]});
    std::copy_n(&data[from], bytes, std::as_writable_bytes(std::span(value == x ? xs : ss)).begin() + static_cast<std::ptrdiff_t>(offset));
  };
  const auto go = [&](const std::string& what) {
    t.check(ready.go(patches).code == QUERN_OK, what + " are taken [C13]");
    t.check(at_y.read() == xs && at_z.read() == ss, what + " are all applied [C13]");
    patches.clear();
  };
  const auto renew = [&] {
    ++round;
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(0x30 + (i * 7 + i / 16 + round) % 16);
  };
  for (const std::size_t n : counts_of("patches_a_run")) {
    renew();
    for (std::size_t p = 0; p < n; ++p) add_patch(p % 2 == 0 ? x : s, 64 * p + 4 * (round % 8), 64 * p, 8);
    go(std::to_string(n) + " patches of one run");
  }
  for (const std::size_t bytes : counts_of("bytes_a_patch"))
    for (const std::size_t offset : {std::size_t{0}, std::size_t{round % 61}}) {
      renew();
      add_patch(s, offset, 0, bytes);
      go(std::to_string(bytes) + " bytes of one patch");
    }
  for (const std::size_t bytes : counts_of("bytes_of_patches")) {
    renew();
    add_patch(x, 32, 0, bytes / 2);
    add_patch(s, 32, bytes / 2, bytes - bytes / 2);
    go(std::to_string(bytes) + " bytes of two patches");
  }
}

/// Outputs that the host reads after each run, in each number.
void outputs_of_every_count(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  for (const std::size_t n : counts_of("outputs_a_plan")) {
    Graph g;
    const std::uint32_t x = g.input({4});
    std::vector<std::uint32_t> outputs;
    for (std::size_t i = 0; i < n; ++i) {
      outputs.push_back(g.output({4}));
      g.copy(x, outputs.back());
    }
    const Plan plan(device, g.get());
    Floats at_x(device, queue, counting(4, 0));
    Spans spans{{x, at_x.span()}};
    std::vector<std::unique_ptr<Floats>> values;
    for (const std::uint32_t output : outputs) {
      values.push_back(std::make_unique<Floats>(device, queue, std::vector<float>(4, -1)));
      spans[output] = values.back()->span();
    }
    Ready ready(device, queue, plan, spans);
    for (int round = 1; round < 4; ++round) {
      const float first = static_cast<float>(100 * round);
      t.check(ready.go({patch_of(x, first)}).code == QUERN_OK, "a run of " + std::to_string(n) + " outputs");
      const std::vector<float> expected = {first, counting(4, 0)[1], counting(4, 0)[2], counting(4, 0)[3]};
      t.check(std::ranges::all_of(values, [&](const auto& y) { return y->read() == expected; }),
              "each of " + std::to_string(n) + " outputs is read as the run wrote it [C11]");
    }
  }
}

/// 64 KiB of patches in each number of parts that they may come in; more than that whole, or refused whole.
void many_and_large_patches(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr std::size_t count = 16384;  // f32: 64 KiB
  Graph g;
  const std::uint32_t x = g.input({count}), s = g.state({4 * count}), y = g.output({count}), z = g.output({4 * count});
  g.copy(x, y);
  g.copy(s, z);
  const Plan plan(device, g.get());
  std::vector<float> xs = counting(count, 1), ss = counting(4 * count, -7);
  Floats at_x(device, queue, xs), at_s(device, queue, ss), at_y(device, queue, std::vector<float>(count)),
      at_z(device, queue, std::vector<float>(4 * count));
  Ready ready(device, queue, plan, {{x, at_x.span()}, {s, at_s.span()}, {y, at_y.span()}, {z, at_z.span()}});
  for (const std::size_t parts : {1u, 2u, 17u, 64u, 65u, 256u, 1000u, 4096u}) {
    std::vector<float> data(count);
    std::vector<quern_patch> patches;
    for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(i + parts);
    const std::size_t size = count / parts;
    for (std::size_t p = 0; p < parts; ++p) {
      const bool state = p % 2 == 1;  // by turns of the input and of the state
      patches.push_back({state ? s : x, 0, p * size * sizeof(float), size * sizeof(float), &data[p * size]});
      std::copy_n(&data[p * size], size, (state ? ss : xs).begin() + static_cast<std::ptrdiff_t>(p * size));
    }
    t.check(ready.go(patches).code == QUERN_OK, std::to_string(parts) + " patches, 64 KiB in all, are taken [C13]");
    t.check(at_y.read() == xs && at_z.read() == ss, std::to_string(parts) + " patches are all applied [C13]");
  }
  std::vector<quern_patch> same;  // each of the same place: the last counts
  std::vector<float> numbers = counting(1000, 5);
  for (const float& number : numbers) same.push_back(patch_of(s, number, 40));
  ss[10] = numbers.back();
  t.check(ready.go(same).code == QUERN_OK && at_z.read() == ss, "of 1,000 patches of one place the last one counts [C13]");
  const std::vector<float> more = counting(4 * count, 11);  // 256 KiB: above what every plugin must take
  const quern_patch large{s, 0, 0, more.size() * sizeof(float), more.data()};
  quern_run run = ready.run();
  quern_run_status status = made<quern_run_status>(QUERN_TYPE_RUN_STATUS);
  run.patches = {&large, 1, sizeof large};
  run.status = &status;
  AbiError error;
  const quern_status answered = ready.submit(run, error);
  if (answered == QUERN_OK) {
    t.check(status.code == QUERN_OK && at_z.read() == more, "a patch of 256 KiB that is taken is applied whole [C13]");
  } else {
    check_refused(t, answered, error, {QUERN_INVALID_ARGUMENT, QUERN_UNSUPPORTED, QUERN_OUT_OF_MEMORY, QUERN_HOST_OUT_OF_MEMORY},
                  "a patch of 256 KiB is taken or refused [C13]");
    t.check(at_s.read() == ss, "and changes nothing where it is refused [C13]");
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
  add(sink, "plans.say_what_they_run", plans_say_what_they_run);
  add(sink, "plans.say_what_serves_which_rows", plans_say_what_serves_which_rows);
  add(sink, "numerics.other_bits_other_keys", other_bits_other_keys, level_inference);
  add(sink, "predicates.any_number_but_zero_writes", any_number_but_zero_writes);
  add(sink, "patches.many_and_large", many_and_large_patches);
  add(sink, "patches.of_every_count", patches_of_every_count);
  add(sink, "plans.outputs_of_every_count", outputs_of_every_count);
  add(sink, "hosts.a_thousand_opens", a_thousand_opens);
}

}  // namespace quern::conformance::abi
