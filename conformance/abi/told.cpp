// What plans tell of themselves is true: kernels and launches, schedules and the rows that they serve, numerics keys [C17 C29].
#include "abi/scripts.hpp"
#include "abi/simple.hpp"
#include "data/data_kind.hpp"
#include "data/tensor.hpp"

#include <algorithm>
#include <cstring>
#include <set>

namespace quern::conformance::abi {
namespace {

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

}  // namespace

void told_scripts(CaseSink& sink) {
  add(sink, "plans.say_what_they_run", plans_say_what_they_run);
  add(sink, "plans.say_what_serves_which_rows", plans_say_what_serves_which_rows);
  add(sink, "numerics.other_bits_other_keys", other_bits_other_keys, level_inference);
}

}  // namespace quern::conformance::abi
