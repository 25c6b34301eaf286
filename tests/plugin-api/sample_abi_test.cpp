// The sample plugin keeps the contract: every function with null, wrong sizes, unknown bits, wrong owners, no memory.
#include "sample_fixture.hpp"

#include "quern/sdk/structs.hpp"

#include <gmock/gmock.h>

#include <functional>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace quern_test;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;
using SampleAbi = SampleTest;

/// x + x -> y, [2].
GraphBuilder small_graph() {
  GraphBuilder g;
  const auto x = g.value(QUERN_VALUE_INPUT, {2}), y = g.value(QUERN_VALUE_OUTPUT, {2});
  g.node(QUERN_OP_ADD, {x, x}, {y});
  return g;
}

TEST_F(SampleAbi, SaysWhatItIsAndLeavesTheRestNull) {
  EXPECT_THAT(sample_path(), testing::EndsWith("libbackend_" + std::string(api.id.data, api.id.size) + ".so"));
  EXPECT_EQ(api.abi_minor, std::min(QUERN_ABI_MINOR, sample_minor())) << "it serves with the smaller minor";
  EXPECT_EQ(api.opset_version, sample_op_set());
  quern_device_info info = zeroed<quern_device_info>(QUERN_TYPE_DEVICE_INFO);
  ASSERT_EQ(api.device_info(plugin, 0, &info, error), QUERN_OK);
  EXPECT_EQ(info.device_class, std::uint32_t{QUERN_DEVICE_OTHER});
  EXPECT_EQ(info.caps, QUERN_CAP_SYNCHRONOUS) << "its memory is not the host's, and it may be probed in any process";
  EXPECT_TRUE(api.queue_create == nullptr && api.fence_create == nullptr && api.weights_plan == nullptr);
  EXPECT_TRUE(api.communicator_create == nullptr && api.snapshot == nullptr && api.restore == nullptr && api.buffer_address == nullptr &&
              api.plan_serialize == nullptr && api.kv_page_query == nullptr);
}

TEST_F(SampleAbi, TheProbeComputes) {
  quern_probe_report report = zeroed<quern_probe_report>(QUERN_TYPE_PROBE_REPORT);
  ASSERT_EQ(api.probe(plugin, &report, error), QUERN_OK) << error.text();
  EXPECT_EQ(report.usable, 1u);
  EXPECT_EQ(report.reason_count, 0u);
}

TEST_F(SampleAbi, QueryIsPureRepeatableAndFillsNoMoreThanItIsGiven) {
  quern_query query = zeroed<quern_query>(QUERN_TYPE_QUERY);
  struct {
    quern_plugin_api table;
    std::uint64_t tail[4];
  } out;
  for (int i = 0; i < 3; ++i) {
    std::memset(&out, 0x5A, sizeof out);
    out.table.header = {sizeof out, QUERN_TYPE_PLUGIN_API, nullptr};
    ASSERT_EQ(sample_query()(&query, &out.table, error), QUERN_OK);
    EXPECT_EQ(out.table.header.struct_size, sizeof(quern_plugin_api));
    EXPECT_EQ(out.tail[0], 0x5A5A5A5A5A5A5A5Aull);
    EXPECT_EQ(out.table.submit, api.submit);
  }
  query.header.struct_size = 8;
  EXPECT_EQ(sample_query()(&query, &out.table, error), QUERN_INVALID_ARGUMENT);
}

TEST_F(SampleAbi, EveryFunctionRefusesNullHandles) {
  std::uint32_t n = 0;
  quern_device* d = nullptr;
  quern_buffer* b = nullptr;
  quern_plan* p = nullptr;
  quern_instance* i = nullptr;
  quern_device_info device_info = zeroed<quern_device_info>(QUERN_TYPE_DEVICE_INFO);
  quern_heap_info heap_info = zeroed<quern_heap_info>(QUERN_TYPE_HEAP_INFO);
  quern_probe_report report = zeroed<quern_probe_report>(QUERN_TYPE_PROBE_REPORT);
  quern_plan_info plan_info = zeroed<quern_plan_info>(QUERN_TYPE_PLAN_INFO);
  quern_instance_info info = zeroed<quern_instance_info>(QUERN_TYPE_INSTANCE_INFO);
  quern_counters counters = zeroed<quern_counters>(QUERN_TYPE_COUNTERS);
  GraphBuilder g = small_graph();
  quern_answer answer = zeroed<quern_answer>(QUERN_TYPE_ANSWER);
  const quern_span span = {};
  const quern_array none = {};
  const std::vector<std::pair<const char*, std::function<quern_status()>>> calls = {
      {"create", [&] { return api.create(nullptr, &plugin, error); }},
      {"create", [&] { return api.create(&host.table, nullptr, error); }},
      {"probe", [&] { return api.probe(nullptr, &report, error); }},
      {"probe", [&] { return api.probe(plugin, nullptr, error); }},
      {"device_count", [&] { return api.device_count(nullptr, &n, error); }},
      {"device_count", [&] { return api.device_count(plugin, nullptr, error); }},
      {"device_info", [&] { return api.device_info(nullptr, 0, &device_info, error); }},
      {"device_info", [&] { return api.device_info(plugin, 0, nullptr, error); }},
      {"device_open", [&] { return api.device_open(nullptr, 0, &d, error); }},
      {"device_open", [&] { return api.device_open(plugin, 0, nullptr, error); }},
      {"device_close", [&] { return api.device_close(nullptr, error); }},
      {"heap_info", [&] { return api.heap_info(nullptr, 0, &heap_info, error); }},
      {"heap_info", [&] { return api.heap_info(device, 0, nullptr, error); }},
      {"memory_limit", [&] { return api.memory_limit(nullptr, 0, 1, error); }},
      {"buffer_create", [&] { return api.buffer_create(nullptr, nullptr, 1, &b, error); }},
      {"buffer_create", [&] { return api.buffer_create(device, nullptr, 1, nullptr, error); }},
      {"buffer_destroy", [&] { return api.buffer_destroy(nullptr, error); }},
      {"upload", [&] { return api.upload(nullptr, nullptr, &span, &n, 1, nullptr, error); }},
      {"upload", [&] { return api.upload(device, nullptr, nullptr, &n, 1, nullptr, error); }},
      {"upload", [&] { return api.upload(device, nullptr, &span, &n, 1, nullptr, error); }},
      {"download", [&] { return api.download(nullptr, nullptr, &n, &span, 1, nullptr, error); }},
      {"download", [&] { return api.download(device, nullptr, &n, nullptr, 1, nullptr, error); }},
      {"copy", [&] { return api.copy(nullptr, nullptr, &span, &span, 1, nullptr, error); }},
      {"copy", [&] { return api.copy(device, nullptr, &span, nullptr, 1, nullptr, error); }},
      {"support", [&] { return api.support(nullptr, g.get(), nullptr, &answer, error); }},
      {"support", [&] { return api.support(device, nullptr, nullptr, &answer, error); }},
      {"support", [&] { return api.support(device, g.get(), nullptr, nullptr, error); }},
      {"compile", [&] { return api.compile(nullptr, g.get(), nullptr, &p, error); }},
      {"compile", [&] { return api.compile(device, nullptr, nullptr, &p, error); }},
      {"compile", [&] { return api.compile(device, g.get(), nullptr, nullptr, error); }},
      {"plan_info", [&] { return api.plan_info(nullptr, &plan_info, error); }},
      {"plan_destroy", [&] { return api.plan_destroy(nullptr, error); }},
      {"instance_create", [&] { return api.instance_create(nullptr, nullptr, &i, &info, error); }},
      {"instance_destroy", [&] { return api.instance_destroy(nullptr, error); }},
      {"prepare", [&] { return api.prepare(nullptr, nullptr, &none, nullptr, error); }},
      {"prepare", [&] { return api.prepare(device, nullptr, nullptr, nullptr, error); }},
      {"submit", [&] { return api.submit(nullptr, nullptr, &none, error); }},
      {"submit", [&] { return api.submit(device, nullptr, nullptr, error); }},
      {"run_cancel", [&] { return api.run_cancel(nullptr, error); }},
      {"counters", [&] { return api.counters(nullptr, &counters, error); }},
  };
  for (const auto& [name, call] : calls) {
    EXPECT_EQ(call(), QUERN_INVALID_ARGUMENT) << name;
    EXPECT_FALSE(error.text().empty()) << name;
  }
}

/// Calls with each size and expects a refusal below the least and success from there on.
template <class T>
void try_sizes(T& s, const std::function<quern_status()>& call, const char* name) {
  for (const std::uint32_t size : {0u, 1u, static_cast<std::uint32_t>(sizeof(quern_header)), quern::sdk::StructTraits<T>::min_size - 1}) {
    s.header.struct_size = size;
    EXPECT_EQ(call(), QUERN_INVALID_ARGUMENT) << name << " with size " << size;
  }
  for (const std::uint32_t size :
       {quern::sdk::StructTraits<T>::min_size, static_cast<std::uint32_t>(sizeof(T)), static_cast<std::uint32_t>(sizeof(T) + 8)}) {
    s.header.struct_size = size;
    EXPECT_EQ(call(), QUERN_OK) << name << " with size " << size;
  }
  s.header.struct_size = sizeof(T);
  s.header.struct_type ^= 64;
  EXPECT_EQ(call(), QUERN_INVALID_ARGUMENT) << name << " with another type";
  s.header.struct_type ^= 64;
  quern_header unknown = {sizeof(quern_header), 77 | QUERN_MUST_UNDERSTAND, nullptr};
  s.header.next = &unknown;
  EXPECT_EQ(call(), QUERN_UNSUPPORTED) << name << " with a chained struct that must be understood";
  unknown.struct_type = 77;
  EXPECT_EQ(call(), QUERN_OK) << name << " with a chained struct that may be skipped";
  s.header.next = nullptr;
}

template <class T>
struct Roomy {
  T s;
  std::uint64_t poison = 0xDEADBEEFDEADBEEFull;
};

TEST_F(SampleAbi, TakesStructsOfEverySizeFromTheFirstReleaseOn) {
  Roomy<quern_device_info> device_info{zeroed<quern_device_info>(QUERN_TYPE_DEVICE_INFO)};
  try_sizes(
      device_info.s, [&] { return api.device_info(plugin, 0, &device_info.s, error); }, "device_info");
  Roomy<quern_heap_info> heap{zeroed<quern_heap_info>(QUERN_TYPE_HEAP_INFO)};
  try_sizes(
      heap.s, [&] { return api.heap_info(device, 0, &heap.s, error); }, "heap_info");
  Roomy<quern_probe_report> report{zeroed<quern_probe_report>(QUERN_TYPE_PROBE_REPORT)};
  try_sizes(
      report.s, [&] { return api.probe(plugin, &report.s, error); }, "probe");
  Roomy<quern_support_options> support{zeroed<quern_support_options>(QUERN_TYPE_SUPPORT_OPTIONS)};
  GraphBuilder g = small_graph();
  Roomy<quern_answer> answer{zeroed<quern_answer>(QUERN_TYPE_ANSWER)};
  try_sizes(
      support.s, [&] { return api.support(device, g.get(), &support.s, &answer.s, error); }, "support options");
  try_sizes(
      answer.s, [&] { return api.support(device, g.get(), nullptr, &answer.s, error); }, "answer");
  Roomy<quern_graph> graph{*g.get()};
  try_sizes(
      graph.s, [&] { return api.support(device, &graph.s, nullptr, &answer.s, error); }, "graph");
  Roomy<quern_buffer_options> options{zeroed<quern_buffer_options>(QUERN_TYPE_BUFFER_OPTIONS)};
  try_sizes(
      options.s,
      [&] {
        quern_buffer* b = nullptr;
        const quern_status status = api.buffer_create(device, &options.s, 4, &b, error);
        if (status == QUERN_OK) api.buffer_destroy(b, nullptr);
        return status;
      },
      "buffer options");
  Roomy<quern_compile_options> compile{zeroed<quern_compile_options>(QUERN_TYPE_COMPILE_OPTIONS)};
  try_sizes(
      compile.s,
      [&] {
        quern_plan* p = nullptr;
        const quern_status status = api.compile(device, g.get(), &compile.s, &p, error);
        if (status == QUERN_OK) api.plan_destroy(p, nullptr);
        return status;
      },
      "compile options");
  Roomy<quern_host> other{host.table};
  try_sizes(
      other.s,
      [&] {
        quern_plugin* p = nullptr;
        const quern_status status = api.create(&other.s, &p, error);
        if (status == QUERN_OK) api.destroy(p);
        return status;
      },
      "host");
  Roomy<quern_sync> sync{zeroed<quern_sync>(QUERN_TYPE_SYNC)};
  const quern_span span = buffer(4);
  const float one = 1;
  try_sizes(
      sync.s, [&] { return api.upload(device, nullptr, &span, &one, 4, &sync.s, error); }, "sync");

  const Ready r = ready(g, {{0, buffer(8)}, {1, buffer(8)}});
  Roomy<quern_plan_info> plan_info{zeroed<quern_plan_info>(QUERN_TYPE_PLAN_INFO)};
  try_sizes(
      plan_info.s, [&] { return api.plan_info(r.plan, &plan_info.s, error); }, "plan_info");
  Roomy<quern_counters> counters{zeroed<quern_counters>(QUERN_TYPE_COUNTERS)};
  try_sizes(
      counters.s, [&] { return api.counters(r.instance, &counters.s, error); }, "counters");
  Roomy<quern_instance_options> wanted{zeroed<quern_instance_options>(QUERN_TYPE_INSTANCE_OPTIONS)};
  Roomy<quern_instance_info> info{zeroed<quern_instance_info>(QUERN_TYPE_INSTANCE_INFO)};
  const auto instance = [&] {
    quern_instance* i = nullptr;
    const quern_status status = api.instance_create(r.plan, &wanted.s, &i, &info.s, error);
    if (status == QUERN_OK) api.instance_destroy(i, nullptr);
    return status;
  };
  try_sizes(wanted.s, instance, "instance options");
  info.s.header.struct_size = sizeof info.s;
  try_sizes(info.s, instance, "instance info");
  Roomy<quern_run_status> status{zeroed<quern_run_status>(QUERN_TYPE_RUN_STATUS)};
  Roomy<quern_run> run{run_of(r)};
  run.s.status = &status.s;
  const quern_array runs = {&run, 1, sizeof run};
  try_sizes(
      run.s, [&] { return api.submit(device, nullptr, &runs, error); }, "run");
  try_sizes(
      status.s, [&] { return api.submit(device, nullptr, &runs, error); }, "run status");
  EXPECT_EQ(status.poison + run.poison, 2 * 0xDEADBEEFDEADBEEFull);
  drop(r);
}

TEST_F(SampleAbi, AnswersNoWithAReason) {
  const auto text = [&](const std::function<void(GraphBuilder&)>& change) {
    GraphBuilder g;
    const auto x = g.value(QUERN_VALUE_INPUT, {4, 8}), w = g.value(QUERN_VALUE_CONSTANT, {8}), y = g.value(QUERN_VALUE_STATE, {4, 8});
    g.node(QUERN_OP_RMS_NORM, {x, w}, {y}, {real(QUERN_KEY_EPSILON, 1e-5)});
    change(g);
    return refusal(g);
  };
  const auto swap = [](std::uint32_t op, std::vector<std::uint32_t> in, std::vector<quern_attribute> a = {}) {
    return [=](GraphBuilder& g) {
      g.node(op, in, {2}, a);
      g.nodes.erase(g.nodes.begin());
    };
  };
  EXPECT_EQ(text([](GraphBuilder&) {}), "");
  EXPECT_EQ(text(swap(QUERN_OP_SILU, {0})), "this plugin has no silu");
  EXPECT_EQ(text(swap(3999, {0})), "op 3999 is newer than the op set " + std::to_string(sample_op_set()) + " of this plugin");
  const auto packed = [&](GraphBuilder& g) {
    swap(QUERN_OP_GLU, {0})(g);
    g.values[0].dims[1] = 16;
  };
  // Plugins of earlier SDKs pass here too, and have other words for forms.
  EXPECT_THAT(text(packed), AnyOf("glu: this plugin takes gate and up as two inputs, not packed in one", HasSubstr("[4, 16]")));
  EXPECT_EQ(text(swap(QUERN_OP_GLU, {0, 0}, {integer(QUERN_KEY_KIND, 1)})), "glu: this plugin has the silu kind (0) only");
  EXPECT_EQ(text(swap(QUERN_OP_GLU, {0, 0}, {real(QUERN_KEY_LIMIT, 7)})), "glu: this plugin has no limit");
  EXPECT_THAT(text(swap(QUERN_OP_RMS_NORM, {0, 1}, {real(QUERN_KEY_EPSILON, 0)})),
              AllOf(StartsWith("rms_norm: epsilon "), HasSubstr("above 0")));
  EXPECT_EQ(text(swap(QUERN_OP_RMS_NORM, {0, 1})), "rms_norm needs the attribute epsilon");
  EXPECT_THAT(text(swap(QUERN_OP_ADD, {1, 0})), AllOf(HasSubstr("[4, 8]"), HasSubstr("[8]")));
  EXPECT_THAT(text([](GraphBuilder& g) { g.values[0].dtype = g.values[2].dtype = QUERN_F16; }), HasSubstr("f32"));
  EXPECT_THAT(text([](GraphBuilder& g) { g.values[1].dims[0] = 7; }), HasSubstr("[7]"));
  EXPECT_EQ(text([](GraphBuilder& g) { g.nodes[0].op_revision = 2; }), "rms_norm is asked for in revision 2, this plugin knows up to 1");
  EXPECT_EQ(text([](GraphBuilder& g) { g.nodes[0].accumulate = QUERN_F16, g.nodes[0].uses = QUERN_NODE_USES_PRECISION; }),
            "this plugin accumulates in f32 only");
  EXPECT_THAT(text([](GraphBuilder& g) { g.nodes[0].predicate = 0, g.nodes[0].uses = QUERN_NODE_USES_PREDICATE; }),
              HasSubstr("i32 or u32"));
}

TEST_F(SampleAbi, AnswersNoToEveryBitThatItDoesNotKnowOrHave) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    GraphBuilder g = small_graph();
    g.value(QUERN_VALUE_STATE, {1}, QUERN_I32);
    g.nodes[0].uses = 1ull << bit;
    g.nodes[0].predicate = 2;
    const bool has = bit == 0 || bit == 2 || bit == 3 || bit == 4;  // predicate, precision, determinism, region
    if (bit != 1) {                                                 // a body beside an op that it has: either answer is right
      EXPECT_EQ(refusal(g).empty(), has) << "node bit " << bit;
    }
    GraphBuilder v = small_graph();
    v.values[1].uses = 1ull << bit;
    v.values[1].alias_of = 0;
    // Symbols, data. An alias of the input is a wrong graph or a refused one. f32 has no format whose hash could be looked at.
    if (bit != 2 && bit != 4) { EXPECT_EQ(refusal(v).empty(), bit == 0 || bit == 3) << "value bit " << bit; }
  }
  GraphBuilder g = small_graph();
  quern_support_options options = zeroed<quern_support_options>(QUERN_TYPE_SUPPORT_OPTIONS);
  options.flags = 1;
  quern_answer answer = zeroed<quern_answer>(QUERN_TYPE_ANSWER);
  EXPECT_EQ(api.support(device, g.get(), &options, &answer, error), QUERN_UNSUPPORTED);
  quern_buffer_options usage = zeroed<quern_buffer_options>(QUERN_TYPE_BUFFER_OPTIONS);
  usage.usage = 1u << 31;
  quern_buffer* b = nullptr;
  EXPECT_EQ(api.buffer_create(device, &usage, 4, &b, error), QUERN_UNSUPPORTED);
  EXPECT_THAT(error.text(), HasSubstr("usage: bit 31 is not known here"));
}

TEST_F(SampleAbi, CompileNamesTheNodesThatItRefuses) {
  GraphBuilder g = small_graph();
  g.node(QUERN_OP_SILU, {0}, {1});
  g.node(QUERN_OP_ADD, {0, 0}, {1});
  g.node(QUERN_OP_NEG, {0}, {1});
  std::uint32_t nodes[1] = {99};
  quern_compile_options options = zeroed<quern_compile_options>(QUERN_TYPE_COMPILE_OPTIONS);
  options.refused_nodes = nodes;
  options.refused_capacity = 1;
  quern_plan* plan = nullptr;
  EXPECT_EQ(api.compile(device, g.get(), &options, &plan, error), QUERN_UNSUPPORTED);
  EXPECT_EQ(options.refused_count, 2u);
  EXPECT_EQ(nodes[0], 1u);
  EXPECT_EQ(error.text(), "node 1: this plugin has no silu");
  EXPECT_EQ(plan, nullptr);
}

TEST_F(SampleAbi, CompileHonoursForcedKernelsAndStopsOnRequest) {
  GraphBuilder g = small_graph();
  quern_compile_options options = zeroed<quern_compile_options>(QUERN_TYPE_COMPILE_OPTIONS);
  quern_plan* plan = nullptr;
  options.force_kernel = {"avx2", 4};
  EXPECT_EQ(api.compile(device, g.get(), &options, &plan, error), QUERN_UNSUPPORTED);
  EXPECT_EQ(error.text(), "node 0: no kernel 'avx2' here; there is add.f32.rows");
  options.force_kernel = {"rows", 4};
  options.progress = [](void*, double) -> std::int32_t { return 0; };
  EXPECT_EQ(api.compile(device, g.get(), &options, &plan, error), QUERN_CANCELLED);
  options.progress = [](void*, double) -> std::int32_t { return 1; };
  ASSERT_EQ(api.compile(device, g.get(), &options, &plan, error), QUERN_OK);
  quern_plan_info info = zeroed<quern_plan_info>(QUERN_TYPE_PLAN_INFO);
  ASSERT_EQ(api.plan_info(plan, &info, error), QUERN_OK);
  ASSERT_EQ(info.kernels.count, 1u);
  const auto* kernel = static_cast<const quern_kernel_info*>(info.kernels.data);
  EXPECT_EQ(std::string(kernel->name.data, kernel->name.size), "add.f32.rows");
  EXPECT_EQ(info.determinism, std::uint32_t{QUERN_DETERMINISM_INVARIANT});
  EXPECT_EQ(api.plan_destroy(plan, error), QUERN_OK);
  options.effort = 3;
  EXPECT_EQ(api.compile(device, g.get(), &options, &plan, error), QUERN_UNSUPPORTED);
}

TEST_F(SampleAbi, PrepareChecksEveryBindingAndChangesNothingWhenOneIsWrong) {
  GraphBuilder g = small_graph();
  quern_device_info info = zeroed<quern_device_info>(QUERN_TYPE_DEVICE_INFO);
  ASSERT_EQ(api.device_info(plugin, 0, &info, error), QUERN_OK);
  const std::uint64_t step = info.memory_alignment;
  const quern_span x = buffer(8), y = buffer(8), tiny = buffer(4), wide = buffer(2 * step);
  const Ready r = ready(g, {{0, x}, {1, y}});
  ASSERT_EQ(r.prepared, QUERN_OK);
  EXPECT_EQ(prepare(r, {{0, x}}), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(error.text(), HasSubstr("value 1 'x' is not bound"));
  EXPECT_EQ(prepare(r, {{0, x}, {1, tiny}}), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(prepare(r, {{0, x}, {1, y}, {2, y}}), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(prepare(r, {{0, x}, {1, {wide.buffer, nullptr, 4, 8}}}), QUERN_INVALID_ARGUMENT) << "not aligned";
  EXPECT_EQ(prepare(r, {{0, x}, {1, {wide.buffer, nullptr, step, step + 16}}}), QUERN_INVALID_ARGUMENT) << "beyond the buffer";
  EXPECT_EQ(prepare(r, {{0, x}, {1, {wide.buffer, nullptr, UINT64_MAX - 3, 8}}}), QUERN_INVALID_ARGUMENT);
  float memory[2];
  EXPECT_EQ(prepare(r, {{0, x}, {1, {nullptr, memory, 0, 8}}}), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(error.text(), HasSubstr("host memory"));
  EXPECT_EQ(run(r).code, QUERN_OK) << "the first bindings still stand";
  EXPECT_EQ(prepare(r, {{0, x}, {1, {wide.buffer, nullptr, step, step}}}), QUERN_OK) << error.text();
  drop(r);
}

TEST_F(SampleAbi, SubmitRefusesWhatItCannotDoBeforeDoingAnything) {
  GraphBuilder g = small_graph();
  const Ready r = ready(g, {{0, holding<float>({1, 2})}, {1, buffer(8)}});
  const float value = 5;
  const auto status = [&](quern_patch patch) {
    quern_run run = run_of(r);
    run.patches = {&patch, 1, sizeof patch};
    return submit(run);
  };
  EXPECT_EQ(status({0, 0, 4, 4, &value}), QUERN_OK);
  EXPECT_EQ(status({0, 0, 8, 4, &value}), QUERN_INVALID_ARGUMENT) << "behind the end";
  EXPECT_EQ(status({0, 0, UINT64_MAX, 4, &value}), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(status({1, 0, 0, 4, &value}), QUERN_INVALID_ARGUMENT) << "an output";
  EXPECT_EQ(status({7, 0, 0, 4, &value}), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(status({0, 0, 0, 4, nullptr}), QUERN_INVALID_ARGUMENT);
  quern_point point = {};
  quern_sync sync = zeroed<quern_sync>(QUERN_TYPE_SYNC);
  sync.wait = {&point, 1, sizeof point};
  quern_run run = run_of(r);
  run.sync = &sync;
  EXPECT_EQ(submit(run), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(error.text(), AllOf(HasSubstr("fences"), HasSubstr("this device is synchronous")));
  quern_instance* raw = nullptr;
  quern_instance_info info = zeroed<quern_instance_info>(QUERN_TYPE_INSTANCE_INFO);
  ASSERT_EQ(api.instance_create(r.plan, nullptr, &raw, &info, error), QUERN_OK);
  run = run_of(r);
  run.instance = raw;
  EXPECT_EQ(submit(run), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(error.text(), AllOf(HasSubstr("the instance"), HasSubstr("not prepared")));
  EXPECT_EQ(api.instance_destroy(raw, error), QUERN_OK);
  drop(r);
}

TEST_F(SampleAbi, CopiesStayInsideTheirBuffers) {
  const quern_span a = holding<float>({1, 2, 3, 4}), b = buffer(16);
  EXPECT_EQ(api.copy(device, nullptr, &b, &a, 16, nullptr, error), QUERN_OK);
  EXPECT_EQ(contents(b), (std::vector<float>{1, 2, 3, 4}));
  const quern_span tail = {a.buffer, nullptr, 8, 8};
  EXPECT_EQ(contents(tail), (std::vector<float>{3, 4}));
  EXPECT_EQ(api.copy(device, nullptr, &b, &tail, 16, nullptr, error), QUERN_INVALID_ARGUMENT);
  const quern_span outside = {a.buffer, nullptr, 12, 8};
  EXPECT_EQ(api.copy(device, nullptr, &b, &outside, 4, nullptr, error), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(api.download(device, nullptr, nullptr, &a, 0, nullptr, error), QUERN_OK) << "nothing is legal";
}

TEST_F(SampleAbi, HandlesOfAnotherDeviceAreRefused) {
  quern_device* other = nullptr;
  ASSERT_EQ(api.device_open(plugin, 0, &other, error), QUERN_OK);
  const quern_span a = buffer(4);
  const float one = 1;
  EXPECT_EQ(api.upload(other, nullptr, &a, &one, 4, nullptr, error), QUERN_INVALID_ARGUMENT);
  GraphBuilder g = small_graph();
  const Ready r = ready(g, {{0, buffer(8)}, {1, buffer(8)}});
  const quern_run run = run_of(r);
  const quern_array runs = {&run, 1, sizeof run};
  EXPECT_EQ(api.submit(other, nullptr, &runs, error), QUERN_INVALID_ARGUMENT);
  drop(r);
  EXPECT_EQ(api.device_close(other, error), QUERN_OK);
  EXPECT_EQ(api.device_open(plugin, 1, &other, error), QUERN_NOT_FOUND);
}

TEST_F(SampleAbi, ParentsWithLiveChildrenAreBusy) {
  GraphBuilder g = small_graph();
  const Ready r = ready(g, {{0, buffer(8)}, {1, buffer(8)}});
  EXPECT_EQ(api.plan_destroy(r.plan, error), QUERN_BUSY);
  EXPECT_EQ(error.text(), "plan_destroy: 1 instances are alive");
  EXPECT_EQ(api.device_close(device, error), QUERN_BUSY);
  drop(r);
}

TEST_F(SampleAbi, MemoryLimitsAreKeptAndTheErrorCarriesTheNumbers) {
  ASSERT_EQ(api.memory_limit(device, 0, 1000, error), QUERN_OK);
  buffer(600);
  quern_buffer* b = nullptr;
  EXPECT_EQ(api.buffer_create(device, nullptr, 500, &b, error), QUERN_OUT_OF_MEMORY);
  EXPECT_EQ(error.fields.requested, 500u);
  EXPECT_EQ(error.fields.available, 400u);
  EXPECT_EQ(error.fields.heap, 0u);
  EXPECT_EQ(api.buffer_create(device, nullptr, UINT64_MAX, &b, error), QUERN_OUT_OF_MEMORY);
  quern_heap_info info = zeroed<quern_heap_info>(QUERN_TYPE_HEAP_INFO);
  ASSERT_EQ(api.heap_info(device, 0, &info, error), QUERN_OK);
  EXPECT_EQ(info.used, 600u);
  EXPECT_EQ(info.budget, 1000u);
  host.refuse_memory = true;
  EXPECT_EQ(api.buffer_create(device, nullptr, 10, &b, error), QUERN_HOST_OUT_OF_MEMORY);
  host.refuse_memory = false;
  EXPECT_EQ(api.buffer_create(device, nullptr, 400, &b, error), QUERN_OK) << "a failed allocation counts for nothing";
  buffers.push_back(b);
}

TEST_F(SampleAbi, TheUsersOptionSizesTheDevice) {
  host.options["memory"] = "256";
  quern_device* small = nullptr;
  ASSERT_EQ(api.device_open(plugin, 0, &small, error), QUERN_OK);
  quern_buffer* b = nullptr;
  EXPECT_EQ(api.buffer_create(small, nullptr, 257, &b, error), QUERN_OUT_OF_MEMORY);
  EXPECT_EQ(api.device_close(small, error), QUERN_OK);
}

TEST_F(SampleAbi, TwoPluginsInOneProcessShareNothing) {
  Host second;
  quern_plugin* other = nullptr;
  quern_device* there = nullptr;
  ASSERT_EQ(api.create(&second.table, &other, error), QUERN_OK);
  ASSERT_EQ(api.device_open(other, 0, &there, error), QUERN_OK);
  quern_buffer* b = nullptr;
  ASSERT_EQ(api.buffer_create(there, nullptr, 64, &b, error), QUERN_OK);
  EXPECT_EQ(second.live.size(), 1u);
  EXPECT_TRUE(host.live.empty());
  EXPECT_EQ(api.buffer_destroy(b, error), QUERN_OK);
  EXPECT_EQ(api.device_close(there, error), QUERN_OK);
  api.destroy(other);
}

TEST_F(SampleAbi, AfterForkOnlyDestroyWorks) {
  const pid_t child = fork();
  if (child == 0) {
    std::uint32_t n = 0;
    quern_buffer* b = nullptr;
    const bool refused = api.device_count(plugin, &n, nullptr) == QUERN_FORKED &&
                         api.buffer_create(device, nullptr, 4, &b, nullptr) == QUERN_FORKED;
    api.destroy(plugin);
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
