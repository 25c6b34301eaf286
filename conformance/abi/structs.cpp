// Sizes of structs, chains, strides and unknown bits [C2 C3], and the error struct [C22].
//
// Each struct that the host passes is tried too small (0, 1, its header, its least size - 1), at its least size, and larger with a tail
// that no release knows yet. Of a larger one the plugin reads and writes only what it knows.
#include "abi/scripts.hpp"
#include "abi/simple.hpp"

#include "quern/quern_min_sizes.h"
#include "device_run/status_words.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>

namespace quern::conformance::abi {
namespace {

constexpr std::uint64_t tail_mark = 0xdeadbeefdeadbeefull;

/// A struct with room behind it, as a host of a later release would pass it.
template <class T>
struct Roomy {
  explicit Roomy(const T& from) : s(from) { std::fill(std::begin(tail), std::end(tail), tail_mark); }
  T s;
  std::uint64_t tail[8];
  bool tail_whole() const {
    return std::all_of(std::begin(tail), std::end(tail), [](std::uint64_t w) { return w == tail_mark; });
  }
};

/// `call` passes s. `least`: QUERN_MIN_SIZE_ of the struct.
template <class T>
void try_sizes(ScriptContext& t, Roomy<T>& roomy, std::uint32_t least, const char* name,
               const std::function<quern_status(quern_error*)>& call) {
  const std::string what = name;
  const quern_header whole{sizeof(T), roomy.s.header.struct_type, nullptr};
  const auto expect = [&](std::initializer_list<quern_status> allowed, const std::string& claim) {
    AbiError error;
    const quern_status found = call(error.get());
    if (*allowed.begin() == QUERN_OK)
      t.check(found == QUERN_OK, claim + ": expected OK, found " + status_words(found) + ": " + error.text());
    else check_refused(t, found, error, allowed, claim);
  };
  for (const std::uint32_t size : {0u, 1u, static_cast<std::uint32_t>(sizeof(quern_header)), least - 1}) {
    roomy.s.header.struct_size = size;
    expect({QUERN_INVALID_ARGUMENT}, what + " of " + std::to_string(size) + " bytes is refused [C2]");
  }
  for (const std::uint32_t size : {least, static_cast<std::uint32_t>(sizeof(T)), static_cast<std::uint32_t>(sizeof roomy)}) {
    roomy.s.header.struct_size = size;
    expect({QUERN_OK}, what + " of " + std::to_string(size) + " bytes is taken [C2]");
    t.check(roomy.tail_whole(), what + ": nothing is written behind what the plugin knows [C2]");
    t.check(roomy.s.header.struct_size <= size, what + ": struct_size never grows [C2]");
  }
  roomy.s.header = whole;
  roomy.s.header.struct_type ^= 64;
  expect({QUERN_INVALID_ARGUMENT}, what + " of another type is refused [C2]");
  quern_header further{sizeof further, 77 | QUERN_MUST_UNDERSTAND, nullptr};
  roomy.s.header = whole;
  roomy.s.header.next = &further;
  expect({QUERN_UNSUPPORTED}, what + " with a chained struct that must be understood is refused [C2]");
  further.struct_type = 77;
  roomy.s.header = whole;
  roomy.s.header.next = &further;
  expect({QUERN_OK}, what + " with a chained struct that may be skipped is taken [C2]");
  roomy.s.header = whole;
}

void outer_structs(ScriptContext& t) {
  const DeviceRef device = t.device();
  const quern_plugin_api& api = device.api();
  Roomy<quern_device_info> info(made<quern_device_info>(QUERN_TYPE_DEVICE_INFO));
  try_sizes(t, info, QUERN_MIN_SIZE_quern_device_info, "device_info",
            [&](quern_error* error) { return api.device_info(device.plugin(), t.device().index(), &info.s, error); });
  if (api.heap_info != nullptr) {
    Roomy<quern_heap_info> heap(made<quern_heap_info>(QUERN_TYPE_HEAP_INFO));
    try_sizes(t, heap, QUERN_MIN_SIZE_quern_heap_info, "heap_info",
              [&](quern_error* error) { return api.heap_info(device.handle(), 0, &heap.s, error); });
  }
  if (api.buffer_create != nullptr) {
    Roomy<quern_buffer_options> options(made<quern_buffer_options>(QUERN_TYPE_BUFFER_OPTIONS));
    try_sizes(t, options, QUERN_MIN_SIZE_quern_buffer_options, "buffer_options", [&](quern_error* error) {
      quern_buffer* buffer = nullptr;
      const quern_status status = api.buffer_create(device.handle(), &options.s, 64, &buffer, error);
      if (status == QUERN_OK) api.buffer_destroy(buffer, nullptr);
      return status;
    });
  }
  if (api.probe != nullptr) {
    TestHost host;
    const OwnDevice own(t, host);
    Roomy<quern_probe_report> report(made<quern_probe_report>(QUERN_TYPE_PROBE_REPORT));
    try_sizes(t, report, QUERN_MIN_SIZE_quern_probe_report, "probe_report",
              [&](quern_error* error) { return api.probe(own.plugin(), &report.s, error); });
  }
  TestHost given;
  Roomy<quern_host> host(*given.table());
  try_sizes(t, host, QUERN_MIN_SIZE_quern_host, "host", [&](quern_error* error) {
    quern_plugin* plugin = nullptr;
    const quern_status status = api.create(&host.s, &plugin, error);
    if (status == QUERN_OK) api.destroy(plugin);
    return status;
  });
}

void graph_structs(ScriptContext& t) {
  const DeviceRef device = t.device();
  const quern_plugin_api& api = device.api();
  Graph g;
  const std::uint32_t x = g.input({2, 3}), y = g.output({2, 3});
  g.copy(x, y);
  Roomy<quern_graph> graph(*g.get());
  Roomy<quern_answer> answer(made<quern_answer>(QUERN_TYPE_ANSWER));
  Roomy<quern_support_options> options(made<quern_support_options>(QUERN_TYPE_SUPPORT_OPTIONS));
  const auto support = [&](quern_error* error) { return api.support(device.handle(), &graph.s, &options.s, &answer.s, error); };
  try_sizes(t, graph, QUERN_MIN_SIZE_quern_graph, "graph", support);
  try_sizes(t, options, QUERN_MIN_SIZE_quern_support_options, "support_options", support);
  try_sizes(t, answer, QUERN_MIN_SIZE_quern_answer, "answer", support);
  Roomy<quern_compile_options> compile(compile_options());
  try_sizes(t, compile, QUERN_MIN_SIZE_quern_compile_options, "compile_options", [&](quern_error* error) {
    quern_plan* plan = nullptr;
    const quern_status status = api.compile(device.handle(), &graph.s, &compile.s, &plan, error);
    if (status == QUERN_OK) api.plan_destroy(plan, nullptr);
    return status;
  });
  // Elements of lists, one at a time and wider than their type: a later release's.
  std::vector<Roomy<quern_value>> values(g.values.begin(), g.values.end());
  graph.s.values = {values.data(), values.size(), sizeof values[0]};
  try_sizes(t, values[1], QUERN_MIN_SIZE_quern_value, "value", support);
  Roomy<quern_node> node(g.nodes[0]);
  graph.s.nodes = {&node, 1, sizeof node};
  try_sizes(t, node, QUERN_MIN_SIZE_quern_node, "node", support);
  for (const std::uint64_t stride : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{QUERN_MIN_SIZE_quern_value - 1}}) {
    graph.s.values.stride = stride;
    AbiError error;
    check_refused(t, support(error.get()), error, {QUERN_INVALID_ARGUMENT},
                  "a list of values with a stride of " + std::to_string(stride) + " is refused [C2]");
  }
  graph.s.values = {nullptr, 2, sizeof(quern_value)};
  AbiError error;
  check_refused(t, support(error.get()), error, {QUERN_INVALID_ARGUMENT}, "a list of two values at null is refused [C2]");
}

void answers_step_by_their_size(ScriptContext& t) {
  const DeviceRef device = t.device();
  Graph g;
  const std::uint32_t x = g.input({2}), y = g.output({2}), z = g.output({2});
  g.copy(x, y);
  g.node(3999, {x}, {z});
  std::vector<Roomy<quern_answer>> answers(2, Roomy<quern_answer>(made<quern_answer>(QUERN_TYPE_ANSWER)));
  for (auto& a : answers) a.s.header.struct_size = sizeof a;
  AbiError error;
  error.check(device.api().support(device.handle(), g.get(), nullptr, &answers[0].s, error.get()), "support");
  t.check(answers[0].s.verdict == QUERN_ANSWER_YES || answers[0].s.verdict == QUERN_ANSWER_YES_IN_GROUP, "the first answer is filled [C2]");
  t.check(answers[1].s.verdict == QUERN_ANSWER_NO && answers[1].s.text.size != 0,
          "the second answer lies where the first one's struct_size says [C2]");
  t.check(answers[0].tail_whole() && answers[1].tail_whole(), "nothing is written between answers [C2]");
}

void run_structs(ScriptContext& t) {
  const DeviceRef device = t.device();
  const quern_plugin_api& api = device.api();
  Queue queue(device);
  OneCopy one(device, queue);
  if (api.plan_info != nullptr) {
    Roomy<quern_plan_info> info(made<quern_plan_info>(QUERN_TYPE_PLAN_INFO));
    try_sizes(t, info, QUERN_MIN_SIZE_quern_plan_info, "plan_info",
              [&](quern_error* error) { return api.plan_info(one.plan.get(), &info.s, error); });
  }
  if (api.counters != nullptr) {
    Roomy<quern_counters> counters(made<quern_counters>(QUERN_TYPE_COUNTERS));
    try_sizes(t, counters, QUERN_MIN_SIZE_quern_counters, "counters",
              [&](quern_error* error) { return api.counters(one.ready.instance().get(), &counters.s, error); });
  }
  Roomy<quern_instance_options> options(made<quern_instance_options>(QUERN_TYPE_INSTANCE_OPTIONS));
  options.s.queue_kind = QUERN_QUEUE_COMPUTE;
  options.s.max_in_flight = 1;
  Roomy<quern_instance_info> info(made<quern_instance_info>(QUERN_TYPE_INSTANCE_INFO));
  const auto create = [&](quern_error* error) {
    quern_instance* instance = nullptr;
    const quern_status status = api.instance_create(one.plan.get(), &options.s, &instance, &info.s, error);
    if (status == QUERN_OK) api.instance_destroy(instance, nullptr);
    return status;
  };
  try_sizes(t, options, QUERN_MIN_SIZE_quern_instance_options, "instance_options", create);
  try_sizes(t, info, QUERN_MIN_SIZE_quern_instance_info, "instance_info", create);

  quern_span spans[] = {one.at_x.span(), one.at_y.span()};
  std::vector<Roomy<quern_binding>> bindings(2, Roomy<quern_binding>(made<quern_binding>(QUERN_TYPE_BINDING)));
  for (std::size_t i = 0; i < 2; ++i) {
    bindings[i].s.value = i == 0 ? one.x : one.y;
    bindings[i].s.spans = {&spans[i], 1, sizeof spans[i]};
  }
  Roomy<quern_prepare_entry> entry(made<quern_prepare_entry>(QUERN_TYPE_PREPARE_ENTRY));
  entry.s.instance = one.ready.instance().get();
  entry.s.bindings = {bindings.data(), bindings.size(), sizeof bindings[0]};
  entry.s.scratch = one.ready.scratch().span();
  const auto prepared = [&](quern_error* error) {
    const quern_array entries{&entry, 1, sizeof entry};
    const quern_status status = api.prepare(device.handle(), queue.get(), &entries, queue.next_signal(), error);
    if (status == QUERN_OK) queue.wait(60);
    else queue.withdraw_signal();
    return status;
  };
  try_sizes(t, entry, QUERN_MIN_SIZE_quern_prepare_entry, "prepare_entry", prepared);
  try_sizes(t, bindings[0], QUERN_MIN_SIZE_quern_binding, "binding", prepared);

  Roomy<quern_run_status> status(made<quern_run_status>(QUERN_TYPE_RUN_STATUS));
  Roomy<quern_run> run(one.ready.run());
  const auto submitted = [&](quern_error* error) {
    run.s.status = &status.s;
    run.s.sync = queue.next_signal();
    const quern_array runs{&run, 1, sizeof run};
    const quern_status answered = api.submit(device.handle(), queue.get(), &runs, error);
    if (answered == QUERN_OK) queue.wait(60);
    else queue.withdraw_signal();
    return answered;
  };
  try_sizes(t, run, QUERN_MIN_SIZE_quern_run, "run", submitted);
  try_sizes(t, status, QUERN_MIN_SIZE_quern_run_status, "run_status", submitted);
  Roomy<quern_sync> sync(made<quern_sync>(QUERN_TYPE_SYNC));
  if (device.synchronous()) {
    try_sizes(t, sync, QUERN_MIN_SIZE_quern_sync, "sync", [&](quern_error* error) {
      quern_run with_sync = one.ready.run();
      with_sync.sync = &sync.s;
      const quern_array runs{&with_sync, 1, sizeof with_sync};
      return api.submit(device.handle(), nullptr, &runs, error);
    });
  }
}

void unknown_bits(ScriptContext& t) {
  const DeviceRef device = t.device();
  const quern_plugin_api& api = device.api();
  Queue queue(device);
  OneCopy one(device, queue);
  for (unsigned bit = 0; bit < 64; ++bit) {
    quern_run run = one.ready.run();
    run.flags = 1ull << bit;
    AbiError error;
    check_refused(t, one.ready.submit(run, error), error, {QUERN_UNSUPPORTED},
                  "bit " + std::to_string(bit) + " of run.flags is refused [C3]");
  }
  t.check(one.at_y.read() == std::vector<float>(4, -1), "a refused run writes nothing [C3]");
  quern_answer answer = made<quern_answer>(QUERN_TYPE_ANSWER);
  for (unsigned bit = 0; bit < 32; ++bit) {
    quern_support_options options = made<quern_support_options>(QUERN_TYPE_SUPPORT_OPTIONS);
    options.flags = 1u << bit;
    AbiError error;
    check_refused(t, api.support(device.handle(), one.graph.get(), &options, &answer, error.get()), error, {QUERN_UNSUPPORTED},
                  "bit " + std::to_string(bit) + " of support_options.flags is refused [C3]");
    quern_span spans[] = {one.at_x.span(), one.at_y.span()};
    std::vector<quern_binding> bindings(2, made<quern_binding>(QUERN_TYPE_BINDING));
    for (std::size_t i = 0; i < 2; ++i) bindings[i].value = i == 0 ? one.x : one.y, bindings[i].spans = {&spans[i], 1, sizeof spans[i]};
    bindings[0].flags = 1u << bit;
    quern_prepare_entry entry = made<quern_prepare_entry>(QUERN_TYPE_PREPARE_ENTRY);
    entry.instance = one.ready.instance().get();
    entry.bindings = array_of(bindings);
    entry.scratch = one.ready.scratch().span();
    const quern_array entries{&entry, 1, sizeof entry};
    AbiError binding_error;
    const quern_status prepared = api.prepare(device.handle(), queue.get(), &entries, nullptr, binding_error.get());
    check_refused(t, prepared, binding_error, {QUERN_UNSUPPORTED}, "bit " + std::to_string(bit) + " of binding.flags is refused [C3]");
    if (api.buffer_create == nullptr || bit < 4) continue;
    quern_buffer_options usage = made<quern_buffer_options>(QUERN_TYPE_BUFFER_OPTIONS);
    usage.usage = 1u << bit;
    quern_buffer* buffer = nullptr;
    AbiError buffer_error;
    const quern_status created = api.buffer_create(device.handle(), &usage, 64, &buffer, buffer_error.get());
    check_refused(t, created, buffer_error, {QUERN_UNSUPPORTED}, "bit " + std::to_string(bit) + " of buffer_options.usage is refused [C3]");
    if (created == QUERN_OK) api.buffer_destroy(buffer, nullptr);
  }
}

void unknown_use_bits(ScriptContext& t) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    if ((QUERN_VALUE_USES_ALL >> bit & 1u) == 0) {
      Graph g;
      const std::uint32_t x = g.input({2}), y = g.output({2});
      g.copy(x, y);
      g.values[x].uses |= 1ull << bit;
      check_no(t, g, "bit " + std::to_string(bit) + " of value.uses [C3]");
    }
    if ((QUERN_NODE_USES_ALL >> bit & 1u) == 0) {
      Graph g;
      const std::uint32_t x = g.input({2}), y = g.output({2});
      g.copy(x, y).uses |= 1ull << bit;
      check_no(t, g, "bit " + std::to_string(bit) + " of node.uses [C3]");
    }
  }
}

void known_bits(ScriptContext& t) {
  const DeviceRef device = t.device();
  const quern_plugin_api& api = device.api();
  Graph g;
  const std::uint32_t x = g.input({2}), y = g.state({2}), live = g.state({1}, QUERN_I32);
  quern_node& node = g.copy(x, y);
  Graph::predicate(node, live);
  node.uses |= QUERN_NODE_USES_PRECISION | QUERN_NODE_USES_DETERMINISM | QUERN_NODE_USES_REGION;
  node.conversions = QUERN_CONVERT_TF32 | QUERN_CONVERT_BF16 | QUERN_CONVERT_F16 | QUERN_CONVERT_INT8;
  node.determinism = QUERN_DETERMINISM_INVARIANT;
  const Answer answer = ask(device, g.get())[0];
  t.check(answer.verdict != QUERN_ANSWER_NO,
          "predicate, precision, determinism and region together are no reason for a no [C3]: " + answer.text);
  if (api.buffer_create == nullptr) return;
  for (const std::uint32_t usage : {QUERN_USAGE_WEIGHTS, QUERN_USAGE_STATE, QUERN_USAGE_SCRATCH, QUERN_USAGE_STAGING}) {
    quern_buffer_options options = made<quern_buffer_options>(QUERN_TYPE_BUFFER_OPTIONS);
    options.usage = usage;
    quern_buffer* buffer = nullptr;
    t.check(api.buffer_create(device.handle(), &options, 64, &buffer, nullptr) == QUERN_OK, "a known usage is taken [C3]");
    if (buffer != nullptr) api.buffer_destroy(buffer, nullptr);
  }
}

void errors_are_filled(ScriptContext& t) {
  const DeviceRef device = t.device();
  const auto fails = [&](quern_error* error) {
    quern_plan* plan = nullptr;
    return device.api().compile(device.handle(), nullptr, nullptr, &plan, error);
  };
  t.check(fails(nullptr) == QUERN_INVALID_ARGUMENT, "a null quern_error is taken [C22]");
  AbiError error;
  t.check(fails(error.get()) == QUERN_INVALID_ARGUMENT, "compile of no graph is refused [C22]");
  t.check(error.get()->code == QUERN_INVALID_ARGUMENT && error.get()->text_size > 0, "the error carries code and text [C22]");
  const std::string whole = error.text();
  for (const std::uint64_t capacity : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{5}}) {
    Roomy<quern_error> small(made<quern_error>(QUERN_TYPE_ERROR));
    char text[16];
    std::memset(text, '#', sizeof text);
    small.s.text = text;
    small.s.text_capacity = capacity;
    small.s.header.struct_size = sizeof small;
    fails(&small.s);
    t.check(small.s.text_size == whole.size(), "text_size is the length of the whole text [C22]");
    t.check(std::string(text, capacity) == whole.substr(0, capacity), "the text is cut at its capacity [C22]");
    t.check(text[capacity] == '#', "nothing is written behind the capacity [C22]");
    t.check(small.tail_whole(), "nothing is written behind the error that the plugin knows [C22]");
  }
}

void errors_too_small_are_left_alone(ScriptContext& t) {
  const DeviceRef device = t.device();
  for (const std::uint32_t size : {0u, 16u, QUERN_MIN_SIZE_quern_error - 1}) {
    quern_error error;
    std::memset(static_cast<void*>(&error), 0x5a, sizeof error);
    error.header.struct_size = size;
    quern_plan* plan = nullptr;
    t.check(device.api().compile(device.handle(), nullptr, nullptr, &plan, &error) == QUERN_INVALID_ARGUMENT,
            "the call answers as without it [C22]");
    t.check(error.code == 0x5a5a5a5a && error.text_size == 0x5a5a5a5a5a5a5a5aull, "an error that is too small is not written to [C22]");
  }
  quern_error no_text = made<quern_error>(QUERN_TYPE_ERROR);
  no_text.text_capacity = 100;  // with a null pointer
  quern_plan* plan = nullptr;
  t.check(device.api().compile(device.handle(), nullptr, nullptr, &plan, &no_text) == QUERN_INVALID_ARGUMENT,
          "an error without room for text is taken [C22]");
}

}  // namespace

void structs_scripts(CaseSink& sink) {
  add(sink, "structs.outer", outer_structs);
  add(sink, "structs.graph", graph_structs);
  add(sink, "structs.answers_step_by_their_size", answers_step_by_their_size);
  add(sink, "structs.run", run_structs);
  add(sink, "structs.unknown_bits", unknown_bits);
  add(sink, "structs.unknown_use_bits", unknown_use_bits);
  add(sink, "structs.known_bits", known_bits);
  add(sink, "errors.are_filled", errors_are_filled);
  add(sink, "errors.too_small_are_left_alone", errors_too_small_are_left_alone);
}

}  // namespace quern::conformance::abi
