// Support, partial support and cuts [C10], options for tests [C29], numerics [C17], and what no backend has yet [C30 C19].
#include "abi/scripts.hpp"
#include "abi/simple.hpp"

#include <atomic>
#include <cstring>
#include <thread>

namespace quern::conformance::abi {
namespace {

constexpr std::uint32_t unknown_op = 3999;

/// copy, an op that nobody has, copy: x -> a -> b -> y.
struct PartlySupported {
  PartlySupported() {
    x = graph.input({4});
    a = graph.internal({4});
    b = graph.internal({4});
    y = graph.output({4});
    graph.copy(x, a);
    graph.node(unknown_op, {a}, {b});
    graph.copy(b, y);
  }
  Graph graph;
  std::uint32_t x, a, b, y;
};

void answers_each_node(ScriptContext& t) {
  PartlySupported p;
  const std::vector<Answer> answers = ask(t.device(), p.graph.get());
  t.check(answers[0].verdict == QUERN_ANSWER_YES && answers[2].verdict == QUERN_ANSWER_YES, "the copies are answered yes [C10]");
  t.check(answers[1].verdict == QUERN_ANSWER_NO && !answers[1].text.empty() && answers[1].code != QUERN_OK,
          "the unknown op is answered no with a reason [C10]");
  t.check(!answers[0].kernel.empty(), "a yes names the kernel that would run [C10]");
  const std::vector<Answer> again = ask(t.device(), p.graph.get());
  for (std::size_t i = 0; i < answers.size(); ++i)
    t.check(answers[i].verdict == again[i].verdict && answers[i].text == again[i].text, "the same question has the same answer [C10]");
}

void compile_names_what_it_refuses(ScriptContext& t) {
  const DeviceRef device = t.device();
  PartlySupported p;
  for (const std::uint64_t capacity : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{8}}) {
    std::uint32_t refused[8];
    std::memset(refused, 0x5a, sizeof refused);
    quern_compile_options options = compile_options();
    options.refused_nodes = refused;
    options.refused_capacity = capacity;
    quern_plan* plan = nullptr;
    AbiError error;
    check_refused(t, device.api().compile(device.handle(), p.graph.get(), &options, &plan, error.get()), error, {QUERN_UNSUPPORTED},
                  "compile refuses a graph with a node that it answered no to [C10]");
    t.check(options.refused_count == 1, "refused_count is the number of refused nodes, whatever the capacity [C10]");
    t.check(capacity == 0 || refused[0] == 1, "the refused node is named [C10]");
    t.check(refused[capacity == 0 ? 0 : 1] == 0x5a5a5a5au, "nothing is written behind the capacity [C10]");
  }
}

/// The host cuts: its own arithmetic stands for the node in the middle. Values on the cut are canonical.
void cut_plans_meet(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Graph first, second;
  const std::uint32_t x = first.input({4}), a = first.output({4}), b = second.input({4}), y = second.output({4});
  first.copy(x, a);
  second.copy(b, y);
  Floats at_x(device, queue, {1, 2, 3, 4}), at_a(device, queue, {0, 0, 0, 0}), at_b(device, queue, {0, 0, 0, 0}),
      at_y(device, queue, {0, 0, 0, 0});
  const Plan before(device, first.get()), behind(device, second.get());
  Ready one(device, queue, before, {{x, at_x.span()}, {a, at_a.span()}}), two(device, queue, behind, {{b, at_b.span()}, {y, at_y.span()}});
  t.check(one.go().code == QUERN_OK, "the part before the cut runs [C10]");
  std::vector<float> middle = at_a.read();
  for (float& m : middle) m = 2 * m + 1;
  at_b.write(middle);
  t.check(two.go().code == QUERN_OK && at_y.read() == std::vector<float>{3, 5, 7, 9},
          "the part behind the cut goes on with the host's values [C10]");
}

void answers_do_not_depend_on_load(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  PartlySupported p;
  const std::vector<Answer> idle = ask(device, p.graph.get());
  TwoNodes work(device, queue, 256);
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  std::thread runner([&] {
    try {
      while (!stop) failed += work.ready.go().code != QUERN_OK;
    } catch (const std::exception&) { ++failed; }
  });
  bool same = true;
  for (int i = 0; i < 50; ++i) {
    const std::vector<Answer> busy = ask(device, p.graph.get());
    for (std::size_t n = 0; n < idle.size(); ++n) same = same && busy[n].verdict == idle[n].verdict && busy[n].text == idle[n].text;
  }
  stop = true;
  runner.join();
  t.check(same, "answers are the same while runs are in flight [C10]");
  t.check(failed == 0, "runs are not disturbed by questions [C28]");
}

void options_are_kept(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  TwoNodes reference(device, queue);
  const std::vector<float> expected = reference.expected();
  for (const std::uint32_t effort : {0u, 1u, 2u})
    for (const std::uint32_t fusion : {0u, 1u})
      for (const std::uint32_t tuning : {QUERN_TUNING_NONE, QUERN_TUNING_CACHED}) {
        quern_compile_options options = compile_options();
        options.effort = effort;
        options.fusion = fusion;
        options.tuning = tuning;
        const Plan plan(device, reference.graph.get(), options);
        if (device.api().plan_info != nullptr) {
          const quern_plan_info info = plan.info();
          t.check(info.kernels.count > 0 && info.kernels.stride >= sizeof(quern_kernel_info), "plan_info names the kernels [C29]");
          if (fusion == 0) t.check(info.kernels.count == 2, "without fusion there is one kernel a node [C29]");
        }
        reference.at_z.write(std::vector<float>(expected.size(), -1));
        Ready ready(device, queue, plan,
                    {{reference.x, reference.at_x.span()}, {reference.b, reference.at_b.span()}, {reference.z, reference.at_z.span()}});
        t.check(ready.go().code == QUERN_OK && reference.at_z.read() == expected,
                "every effort, fusion and tuning computes the same whole numbers [C29]");
      }
}

void named_kernels_can_be_forced(ScriptContext& t) {
  const DeviceRef device = t.device();
  if (device.api().plan_info == nullptr) t.waive("plan_info is null", "no kernel is named");
  Queue queue(device);
  OneCopy one(device, queue);
  const quern_plan_info info = one.plan.info();
  t.require(info.kernels.count == 1, "one node without a neighbour is one kernel [C29]");
  const auto* kernel = static_cast<const quern_kernel_info*>(info.kernels.data);
  quern_compile_options options = compile_options();
  options.force_kernel = kernel->name;
  const Plan forced(device, one.graph.get(), options);
  const quern_plan_info again = forced.info();
  const auto* same = static_cast<const quern_kernel_info*>(again.kernels.data);
  t.check(same->name.size == kernel->name.size && std::memcmp(same->name.data, kernel->name.data, kernel->name.size) == 0,
          "the kernel that was forced is the one that runs [C29]");
}

void unknown_options_are_refused(ScriptContext& t) {
  const DeviceRef device = t.device();
  Graph g;
  const std::uint32_t x = g.input({4}), y = g.output({4});
  g.copy(x, y);
  const auto refused = [&](const char* what, const auto& spoil) {
    quern_compile_options options = compile_options();
    spoil(options);
    quern_plan* plan = nullptr;
    AbiError error;
    const quern_status status = device.api().compile(device.handle(), g.get(), &options, &plan, error.get());
    check_refused(t, status, error, {QUERN_UNSUPPORTED}, what);
    if (status == QUERN_OK && plan != nullptr) device.api().plan_destroy(plan, nullptr);
  };
  refused("a kernel that there is not is refused [C29]", [](quern_compile_options& o) { o.force_kernel = {"no_such_kernel", 14}; });
  refused("an effort of 3 is refused [C3]", [](quern_compile_options& o) { o.effort = 3; });
  refused("a tuning of 3 is refused [C3]", [](quern_compile_options& o) { o.tuning = 3; });
  refused("a fusion of 2 is refused [C3]", [](quern_compile_options& o) { o.fusion = 2; });
}

void progress_can_stop_compile(ScriptContext& t) {
  const DeviceRef device = t.device();
  Graph g;
  const std::uint32_t x = g.input({4}), y = g.output({4});
  g.copy(x, y);
  int calls = 0;
  quern_compile_options options = compile_options();
  options.progress_context = &calls;
  options.progress = [](void* context, double fraction) -> std::int32_t {
    ++*static_cast<int*>(context);
    return fraction >= 0 && fraction <= 1 ? 1 : 0;
  };
  { const Plan plan(device, g.get(), options); }
  const int went_on = calls;
  options.progress = [](void* context, double) -> std::int32_t {
    ++*static_cast<int*>(context);
    return 0;
  };
  quern_plan* plan = nullptr;
  AbiError error;
  const quern_status status = device.api().compile(device.handle(), g.get(), &options, &plan, error.get());
  if (calls == went_on && went_on == 0) {
    t.check(status == QUERN_OK, "a compile that never asks goes on [C10]");
  } else {
    t.check(status == QUERN_CANCELLED, "progress that answers 0 stops the compile as cancelled [C10]");
  }
  if (status == QUERN_OK && plan != nullptr) device.api().plan_destroy(plan, nullptr);
}

/// A row has the same bits alone, among 33, and in any chunk, where the node asks for that.
void invariant_rows(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr std::int64_t rows = 33, k = 96, n = 17;
  const CounterRandom random = CounterRandom::of(t.case_name());
  std::vector<float> a(rows * k), b(n * k);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(random.gaussian(i));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(random.gaussian(100000 + i));
  const auto run = [&](std::int64_t first, std::int64_t count) {
    Graph g;
    const std::uint32_t x = g.input({count, k}), w = g.constant({n, k}), y = g.output({count, n});
    quern_node& node = g.matmul(x, w, y);
    node.uses |= QUERN_NODE_USES_DETERMINISM;
    node.determinism = QUERN_DETERMINISM_INVARIANT;
    if (const Answer answer = ask(device, g.get())[0]; answer.verdict == QUERN_ANSWER_NO) t.waive("invariant results", answer.text);
    Floats at_x(device, queue, {a.begin() + first * k, a.begin() + (first + count) * k}), at_w(device, queue, b),
        at_y(device, queue, std::vector<float>(static_cast<std::size_t>(count * n)));
    const Plan plan(device, g.get());
    if (device.api().plan_info != nullptr)
      t.check(plan.info().determinism >= QUERN_DETERMINISM_INVARIANT, "the plan keeps at least what its node asks [C17]");
    Ready ready(device, queue, plan, {{x, at_x.span()}, {w, at_w.span()}, {y, at_y.span()}});
    t.check(ready.go().code == QUERN_OK, "the run ends well [C17]");
    return at_y.read();
  };
  const std::vector<float> whole = run(0, rows);
  std::vector<float> chunked;
  for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 1}, {1, 16}, {17, 5}, {22, 11}}) {
    const std::vector<float> part = run(first, count);
    chunked.insert(chunked.end(), part.begin(), part.end());
  }
  t.check(std::memcmp(whole.data(), chunked.data(), whole.size() * sizeof(float)) == 0, "a row has the same bits in every chunk [C17]");
}

void equal_keys_equal_bits(ScriptContext& t) {
  const DeviceRef device = t.device();
  if (device.api().plan_info == nullptr) t.waive("plan_info is null", "no numerics key is told");
  Queue queue(device);
  TwoNodes first(device, queue), second(device, queue);
  t.check(first.plan.info().numerics_key == second.plan.info().numerics_key, "the same graph has the same numerics key twice [C17]");
  t.check(first.ready.go().code == QUERN_OK && second.ready.go().code == QUERN_OK && first.at_z.read() == second.at_z.read(),
          "and the same bits [C17]");
}

void unknown_numerics_are_no(ScriptContext& t) {
  const auto no = [&](const char* what, const auto& spoil) {
    Graph g;
    const std::uint32_t a = g.input({4, 4}), b = g.constant({4, 4}), y = g.output({4, 4});
    spoil(g.matmul(a, b, y));
    check_no(t, g, what);
  };
  no("a determinism of 3 [C17]", [](quern_node& n) { n.uses |= QUERN_NODE_USES_DETERMINISM, n.determinism = 3; });
  no("accumulation in i32 [C17]", [](quern_node& n) { n.uses |= QUERN_NODE_USES_PRECISION, n.accumulate = QUERN_I32; });
  no("an input conversion that is not known [C17]", [](quern_node& n) { n.uses |= QUERN_NODE_USES_PRECISION, n.conversions = 1u << 20; });
}

void collectives_need_their_capability(ScriptContext& t) {
  const DeviceRef device = t.device();
  if ((device.caps() & QUERN_CAP_COLLECTIVES) != 0)
    t.waive("QUERN_CAP_COLLECTIVES", "the device has collectives; one rank cannot show them");
  for (const std::uint32_t op : {QUERN_OP_ALL_REDUCE, QUERN_OP_ALL_GATHER, QUERN_OP_REDUCE_SCATTER, QUERN_OP_BROADCAST}) {
    Graph g;
    const std::uint32_t x = g.input({4}), y = g.output({4});
    quern_node& node = g.node(op, {x}, {y});
    node.uses |= QUERN_NODE_USES_COMMUNICATOR;
    check_no(t, g, "a collective without QUERN_CAP_COLLECTIVES [C19]");
  }
  Graph g;
  const std::uint32_t x = g.input({4}), y = g.output({4});
  g.copy(x, y);
  quern_communicator communicator = made<quern_communicator>(QUERN_TYPE_COMMUNICATOR);
  communicator.ranks = 1;
  quern_compile_options options = compile_options();
  options.communicators = {&communicator, 1, sizeof communicator};
  quern_plan* plan = nullptr;
  AbiError error;
  check_refused(t, device.api().compile(device.handle(), g.get(), &options, &plan, error.get()), error, {QUERN_UNSUPPORTED},
                "communicators without QUERN_CAP_COLLECTIVES are refused [C19]");
}

void indirect_spans_need_their_capability(ScriptContext& t) {
  if ((t.device().info().caps & QUERN_CAP_INDIRECT_SPANS) != 0) t.waive("QUERN_CAP_INDIRECT_SPANS", "the device has indirect spans");
  Graph g;
  const std::uint32_t x = g.input({4}), y = g.output({4});
  g.values[x].uses |= QUERN_VALUE_USES_INDIRECT;
  g.copy(x, y);
  check_no(t, g, "an indirect value without QUERN_CAP_INDIRECT_SPANS [C30]");
}

void snapshots_need_their_capability(ScriptContext& t) {
  if ((t.device().info().caps & QUERN_CAP_SNAPSHOTS) != 0) t.waive("QUERN_CAP_SNAPSHOTS", "the device has snapshots");
  Graph g;
  const std::uint32_t x = g.input({4}), y = g.state({4});
  g.values[y].uses |= QUERN_VALUE_USES_SNAPSHOT;
  g.copy(x, y);
  check_no(t, g, "state that needs snapshots without QUERN_CAP_SNAPSHOTS [C30]");
  t.check(t.api().snapshot == nullptr && t.api().restore == nullptr, "without QUERN_CAP_SNAPSHOTS snapshot and restore are null [C30]");
}

void what_is_offered_is_consistent(ScriptContext& t) {
  const std::uint64_t caps = t.device().info().caps;
  t.check(((caps & QUERN_CAP_SNAPSHOTS) != 0) == (t.api().snapshot != nullptr), "snapshot is there if and only if its capability is [C30]");
  t.check(((caps & QUERN_CAP_COLLECTIVES) != 0) == (t.api().communicator_create != nullptr),
          "communicator_create is there if and only if its capability is [C30]");
  t.check((t.api().tuning_export == nullptr) == (t.api().tuning_import == nullptr), "tuning is exported and imported [C29]");
  t.check((t.api().plan_serialize == nullptr) == (t.api().plan_deserialize == nullptr), "plans are serialised and deserialised [C25]");
}

}  // namespace

void support_scripts(CaseSink& sink) {
  add(sink, "support.answers_each_node", answers_each_node);
  add(sink, "support.compile_names_what_it_refuses", compile_names_what_it_refuses);
  add(sink, "support.cut_plans_meet", cut_plans_meet);
  add(sink, "support.answers_do_not_depend_on_load", answers_do_not_depend_on_load);
  add(sink, "support.progress_can_stop_compile", progress_can_stop_compile);
  add(sink, "options.are_kept", options_are_kept);
  add(sink, "options.named_kernels_can_be_forced", named_kernels_can_be_forced);
  add(sink, "options.unknown_are_refused", unknown_options_are_refused);
  add(sink, "numerics.invariant_rows", invariant_rows);
  add(sink, "numerics.equal_keys_equal_bits", equal_keys_equal_bits);
  add(sink, "numerics.unknown_are_no", unknown_numerics_are_no);
  add(sink, "offers.collectives_need_their_capability", collectives_need_their_capability);
  add(sink, "offers.indirect_spans_need_their_capability", indirect_spans_need_their_capability);
  add(sink, "offers.snapshots_need_their_capability", snapshots_need_their_capability);
  add(sink, "offers.are_consistent", what_is_offered_is_consistent);
}

}  // namespace quern::conformance::abi
