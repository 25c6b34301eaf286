// The plugin at its C boundary: negotiation, handles, and graphs that must be refused with a reason.
#include "harness.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

namespace quern::cpu_test {
namespace {

using ::testing::HasSubstr;

quern_plugin_query_fn query_function() {
  void* library = dlopen(QUERN_CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<quern_plugin_query_fn>(dlsym(library, QUERN_PLUGIN_QUERY_NAME));
}

TEST(Query, FillsOnlyTheSizeThatTheHostHas) {
  const quern_plugin_query_fn query = query_function();
  ASSERT_NE(query, nullptr);
  quern_query q{{sizeof(q), QUERN_TYPE_QUERY, nullptr}, 7, 0, 0};
  struct {
    quern_plugin_api api;
    std::uint64_t guard;
  } room{};
  room.guard = 0x1122334455667788ull;
  room.api.header = {sizeof(room), QUERN_TYPE_PLUGIN_API, nullptr};  // a newer host
  ASSERT_EQ(query(&q, &room.api, nullptr), QUERN_OK);
  EXPECT_EQ(room.api.header.struct_size, sizeof(quern_plugin_api));
  EXPECT_EQ(room.api.abi_minor, QUERN_ABI_MINOR);
  EXPECT_EQ(room.guard, 0x1122334455667788ull);
  EXPECT_EQ(std::string(room.api.id.data, room.api.id.size), "cpu");
}

TEST(Query, RefusesAHostThatNeedsANewerMinorOrIsTooShort) {
  const quern_plugin_query_fn query = query_function();
  quern_plugin_api api{};
  api.header = {sizeof(api), QUERN_TYPE_PLUGIN_API, nullptr};
  quern_query q{{sizeof(q), QUERN_TYPE_QUERY, nullptr}, QUERN_ABI_MINOR + 5, QUERN_ABI_MINOR + 1, 0};
  EXPECT_EQ(query(&q, &api, nullptr), QUERN_VERSION);
  q.abi_minor_min = 0;
  api.header.struct_size = 40;
  EXPECT_EQ(query(&q, &api, nullptr), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(query(nullptr, &api, nullptr), QUERN_INVALID_ARGUMENT);
}

TEST(Create, NamesAForcedKernelThatDoesNotExist) {
  const Plugin plugin(1, {{"force_kernel", "avx1024"}});
  EXPECT_EQ(plugin.created().status, QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(plugin.created().text, HasSubstr("avx1024"));
}

TEST(Create, IgnoresAForcedKernelOfAnotherBackend) {
  const Plugin plugin(1, {{"force_kernel", "cuda:tensor"}});
  EXPECT_EQ(plugin.created().status, QUERN_OK);
}

TEST(Create, RefusesNoThreads) {
  const Plugin plugin(0);
  EXPECT_EQ(plugin.created().status, QUERN_INVALID_ARGUMENT);
}

TEST(Probe, RunsEveryInstructionSetAndIsUsable) {
  Plugin plugin(2);
  quern_probe_report report{};
  report.header = {sizeof(report), QUERN_TYPE_PROBE_REPORT, nullptr};
  EXPECT_EQ(plugin.api().probe(plugin.handle(), &report, nullptr), QUERN_OK);
  EXPECT_EQ(report.usable, 1u);
  EXPECT_EQ(report.reason_count, 0u);
}

TEST(Device, HasOneCpuAndNamesIt) {
  Plugin plugin;
  std::uint32_t count = 0;
  ASSERT_EQ(plugin.api().device_count(plugin.handle(), &count, nullptr), QUERN_OK);
  EXPECT_EQ(count, 1u);
  quern_device_info info{};
  info.header = {sizeof(info), QUERN_TYPE_DEVICE_INFO, nullptr};
  ASSERT_EQ(plugin.api().device_info(plugin.handle(), 0, &info, nullptr), QUERN_OK);
  EXPECT_EQ(info.device_class, static_cast<std::uint32_t>(QUERN_DEVICE_CPU));
  EXPECT_EQ(info.caps, QUERN_CAP_SYNCHRONOUS | QUERN_CAP_HOST_MEMORY);
  EXPECT_GT(info.name.size, 0u);
  EXPECT_EQ(plugin.api().device_info(plugin.handle(), 1, &info, nullptr), QUERN_NOT_FOUND);
}

TEST(Device, StaysOpenWhileAPlanLives) {
  Plugin plugin;
  GraphSpec graph;
  graph.nodes.push_back({QUERN_OP_SCALE, {graph.add(make(QUERN_F32, {4}))}, {graph.add(make(QUERN_F32, {4}, QUERN_VALUE_OUTPUT))}});
  quern_plan* plan = nullptr;
  ASSERT_EQ(plugin.compile(graph, &plan).status, QUERN_OK);
  EXPECT_EQ(plugin.api().device_close(plugin.device(), nullptr), QUERN_BUSY);
  EXPECT_EQ(plugin.api().plan_destroy(plan, nullptr), QUERN_OK);
}

/// y = x * w as a starting point that compiles; each case breaks one thing.
struct BadGraph {
  const char* name;
  std::function<void(quern_graph&, std::vector<quern_value>&, std::vector<quern_node>&)> damage;
  quern_status status;
  const char* text;
};

class RefusedGraph : public ::testing::TestWithParam<BadGraph> {};

std::uint32_t bad_ids[] = {0, 77};
const quern_attribute unknown_key = {QUERN_KEY_WINDOW, QUERN_ATTR_I64, 3, 0};
const quern_attribute wrong_type = {QUERN_KEY_ALPHA, QUERN_ATTR_I64, 3, 0};
const quern_attribute no_number = {QUERN_KEY_ALPHA, QUERN_ATTR_F64, 0, std::numeric_limits<double>::quiet_NaN()};
const quern_attribute twice[] = {{QUERN_KEY_ALPHA, QUERN_ATTR_F64, 0, 1}, {QUERN_KEY_ALPHA, QUERN_ATTR_F64, 0, 2}};

const BadGraph bad_graphs[] = {
    {"UnknownOp", [](auto&, auto&, auto& n) { n[0].op = 999; }, QUERN_UNSUPPORTED, "op 999"},
    {"UnknownRevision", [](auto&, auto&, auto& n) { n[0].op_revision = 2; }, QUERN_UNSUPPORTED, "revision 2"},
    {"UnknownNodeBit", [](auto&, auto&, auto& n) { n[0].uses |= 1ull << 40; }, QUERN_UNSUPPORTED, "bit 40"},
    {"UnknownValueBit", [](auto&, auto& v, auto&) { v[0].uses |= 1ull << 40; }, QUERN_UNSUPPORTED, "bit 40"},
    {"UnknownDtype", [](auto&, auto& v, auto&) { v[0].dtype = 200; }, QUERN_UNSUPPORTED, "element type 200"},
    {"WrongFormatHash", [](auto&, auto& v, auto&) { v[1].format_hash ^= 1; }, QUERN_UNSUPPORTED, "hash"},
    {"FormatBitMissing", [](auto&, auto& v, auto&) { v[1].uses &= ~QUERN_VALUE_USES_FORMAT; }, QUERN_UNSUPPORTED, "hash"},
    {"PackedLayout", [](auto&, auto& v, auto&) { v[1].uses |= QUERN_VALUE_USES_LAYOUT; }, QUERN_UNSUPPORTED, "no layout of this plugin"},
    {"IndirectSpans", [](auto&, auto& v, auto&) { v[0].uses |= QUERN_VALUE_USES_INDIRECT; }, QUERN_UNSUPPORTED, "device memory"},
    {"UnknownAttribute",
     [](auto&, auto&, auto& n) {
       n[0].attributes = {&unknown_key, 1, sizeof(unknown_key)};
     },
     QUERN_UNSUPPORTED, "window"},
    {"AttributeOfAnotherType",
     [](auto&, auto&, auto& n) {
       n[0].attributes = {&wrong_type, 1, sizeof(wrong_type)};
     },
     QUERN_UNSUPPORTED, "alpha"},
    {"AttributeTwice",
     [](auto&, auto&, auto& n) {
       n[0].attributes = {twice, 2, sizeof(twice[0])};
     },
     QUERN_UNSUPPORTED, "alpha came twice"},
    {"ValueIdOutOfRange", [](auto&, auto&, auto& n) { n[0].inputs.data = bad_ids; }, QUERN_INVALID_ARGUMENT, "77"},
    {"MissingInput", [](auto&, auto&, auto& n) { n[0].inputs.count = 1; }, QUERN_INVALID_ARGUMENT, "1 inputs"},
    {"NullList", [](auto&, auto&, auto& n) { n[0].inputs.data = nullptr; }, QUERN_INVALID_ARGUMENT, "null"},
    {"ShortStride", [](auto& g, auto&, auto&) { g.values.stride = 8; }, QUERN_INVALID_ARGUMENT, "stride"},
    {"HugeCount", [](auto& g, auto&, auto&) { g.values.count = 1ull << 60; }, QUERN_INVALID_ARGUMENT, "elements"},
    {"RankSeven", [](auto&, auto& v, auto&) { v[0].rank = 7; }, QUERN_INVALID_ARGUMENT, "7 dimensions"},
    {"NegativeDim", [](auto&, auto& v, auto&) { v[0].dims[0] = -1; }, QUERN_INVALID_ARGUMENT, "is -1"},
    {"OverflowingDims", [](auto&, auto& v, auto&) { v[0].dims[0] = v[0].dims[1] = std::int64_t{1} << 40; }, QUERN_INVALID_ARGUMENT,
     "63 bits"},
    {"HalfABlock", [](auto&, auto& v, auto&) { v[1].dims[1] = 48; }, QUERN_INVALID_ARGUMENT, "blocks of 32"},
    {"UnknownKind", [](auto&, auto& v, auto&) { v[0].kind = 9; }, QUERN_INVALID_ARGUMENT, "kind 9"},
    {"UnknownSymbol", [](auto&, auto& v, auto&) { v[0].uses |= QUERN_VALUE_USES_SYMBOLS, v[0].symbols[0] = 4; }, QUERN_INVALID_ARGUMENT,
     "symbol 3"},
    {"AliasOfItself", [](auto&, auto& v, auto&) { v[0].uses |= QUERN_VALUE_USES_ALIAS, v[0].alias_of = 0; }, QUERN_INVALID_ARGUMENT,
     "alias of 0"},
    {"AliasBeyondItsTarget",
     [](auto&, auto& v, auto&) { v[3].uses |= QUERN_VALUE_USES_ALIAS, v[3].alias_of = 0, v[3].alias_offset = 4096; },
     QUERN_INVALID_ARGUMENT, "covers bytes"},
    {"AliasOfALaterValue", [](auto&, auto& v, auto&) { v[0].uses |= QUERN_VALUE_USES_ALIAS, v[0].alias_of = 3; }, QUERN_INVALID_ARGUMENT,
     "no earlier value"},
    {"AliasOfAnotherKind", [](auto&, auto& v, auto&) { v[3].uses |= QUERN_VALUE_USES_ALIAS, v[3].alias_of = 2; }, QUERN_INVALID_ARGUMENT,
     "of kind"},
    {"AttributeThatIsNoNumber",
     [](auto&, auto&, auto& n) {
       n[0].attributes = {&no_number, 1, sizeof(no_number)};
     },
     QUERN_INVALID_ARGUMENT, "alpha is not a number"},
    {"NegativeStride", [](auto&, auto& v, auto&) { v[0].uses |= QUERN_VALUE_USES_STRIDES, v[0].strides[0] = -4, v[0].strides[1] = 4; },
     QUERN_INVALID_ARGUMENT, "stride -4"},
    {"WritesAConstant", [](auto&, auto& v, auto&) { v[2].kind = QUERN_VALUE_CONSTANT; }, QUERN_INVALID_ARGUMENT, "not to be written"},
    {"ReadsBeforeItIsWritten", [](auto&, auto& v, auto&) { v[0].kind = QUERN_VALUE_INTERNAL; }, QUERN_INVALID_ARGUMENT,
     "before it is made"},
    {"OutputNobodyWrites", [](auto&, auto& v, auto&) { v[3].kind = QUERN_VALUE_OUTPUT; }, QUERN_INVALID_ARGUMENT, "no node writes it"},
    {"Composite", [](auto&, auto&, auto& n) { n[0].uses |= QUERN_NODE_USES_BODY; }, QUERN_UNSUPPORTED, "composite"},
    {"HalfAccumulation", [](auto&, auto&, auto& n) { n[0].uses |= QUERN_NODE_USES_PRECISION, n[0].accumulate = QUERN_F16; },
     QUERN_UNSUPPORTED, "accumulates in f32"},
    {"ShortNode", [](auto&, auto&, auto& n) { n[0].header.struct_size = 20; }, QUERN_INVALID_ARGUMENT, "struct_size"},
    {"WrongStructType", [](auto&, auto&, auto& n) { n[0].header.struct_type = QUERN_TYPE_VALUE; }, QUERN_INVALID_ARGUMENT, "struct_type"},
};

TEST_P(RefusedGraph, WithAStatusAndAReason) {
  Plugin plugin;
  GraphSpec spec;
  spec.add(random_tensor(QUERN_F32, {2, 64}, 1));
  spec.add(random_tensor(QUERN_Q8_0, {3, 64}, 2));
  spec.add(make(QUERN_F32, {2, 3}, QUERN_VALUE_OUTPUT));
  spec.add(make(QUERN_F32, {2, 3}));
  spec.nodes.push_back({QUERN_OP_MATMUL, {0, 1}, {2}});
  quern_graph graph = *spec.build();
  char text[512] = {};
  quern_error error{};
  error.header = {sizeof(error), QUERN_TYPE_ERROR, nullptr};
  error.text = text;
  error.text_capacity = sizeof(text);
  quern_plan* plan = nullptr;
  ASSERT_EQ(plugin.api().compile(plugin.device(), &graph, nullptr, &plan, &error), QUERN_OK) << text;
  plugin.api().plan_destroy(plan, nullptr);
  GetParam().damage(graph, spec.raw_values(), spec.raw_nodes());
  std::uint32_t refused[4] = {};
  quern_compile_options options{};
  options.header = {sizeof(options), QUERN_TYPE_COMPILE_OPTIONS, nullptr};
  options.refused_nodes = refused;
  options.refused_capacity = 4;
  EXPECT_EQ(plugin.api().compile(plugin.device(), &graph, &options, &plan, &error), GetParam().status) << text;
  EXPECT_THAT(std::string(text), HasSubstr(GetParam().text));
  EXPECT_EQ(plan, nullptr);
  if (GetParam().status == QUERN_UNSUPPORTED && options.refused_count > 0) { EXPECT_EQ(refused[0], 0u); }
}
INSTANTIATE_TEST_SUITE_P(Plugin, RefusedGraph, ::testing::ValuesIn(bad_graphs),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(Support, AnswersEachNodeOnItsOwn) {
  Plugin plugin(1, {{"force_kernel", "portable"}});
  GraphSpec graph;
  const auto x = graph.add(make(QUERN_F32, {2, 64})), w = graph.add(random_tensor(QUERN_Q4_K, {3, 256}, 1)),
             y = graph.add(make(QUERN_F32, {2, 3}, QUERN_VALUE_OUTPUT)), z = graph.add(make(QUERN_F32, {2, 64}, QUERN_VALUE_OUTPUT));
  graph.nodes.push_back({QUERN_OP_MATMUL, {x, w}, {y}});
  graph.nodes.push_back({QUERN_OP_SILU, {x}, {z}});
  quern_answer answers[2] = {};
  for (quern_answer& a : answers) a.header = {sizeof(a), QUERN_TYPE_ANSWER, nullptr};
  ASSERT_EQ(plugin.api().support(plugin.device(), graph.build(), nullptr, answers, nullptr), QUERN_OK);
  EXPECT_EQ(answers[0].verdict, static_cast<std::uint32_t>(QUERN_ANSWER_NO));
  EXPECT_THAT(std::string(answers[0].text.data, answers[0].text.size), HasSubstr("they have one k"));
  EXPECT_EQ(answers[1].verdict, static_cast<std::uint32_t>(QUERN_ANSWER_YES));
  EXPECT_EQ(std::string(answers[1].kernel.data, answers[1].kernel.size), "silu.portable");
}

TEST(PlanInfo, SaysWhyAFasterKernelDidNotRun) {
  Plugin plugin;
  if (!plugin.has("avx2")) GTEST_SKIP() << "this processor has the portable kernels only";
  GraphSpec graph;
  graph.nodes.push_back({QUERN_OP_MATMUL,
                         {graph.add(make(QUERN_F32, {2, 64})), graph.add(random_tensor(QUERN_Q8_0, {3, 64}, 1))},
                         {graph.add(make(QUERN_F32, {2, 3}, QUERN_VALUE_OUTPUT))}});
  quern_plan* plan = nullptr;
  ASSERT_EQ(plugin.compile(graph, &plan, "cpu:portable").status, QUERN_OK);
  quern_plan_info info{};
  info.header = {sizeof(info), QUERN_TYPE_PLAN_INFO, nullptr};
  ASSERT_EQ(plugin.api().plan_info(plan, &info, nullptr), QUERN_OK);
  ASSERT_EQ(info.kernels.count, 1u);
  const auto& kernel = *static_cast<const quern_kernel_info*>(info.kernels.data);
  EXPECT_EQ(std::string(kernel.name.data, kernel.name.size), "matmul.q8_0.portable");
  EXPECT_THAT(std::string(kernel.reason.data, kernel.reason.size), HasSubstr("avx2: switched off by force_kernel=portable"));
  EXPECT_EQ(info.determinism, static_cast<std::uint32_t>(QUERN_DETERMINISM_INVARIANT));
  plugin.api().plan_destroy(plan, nullptr);
}

TEST(Prepare, RefusesMemoryThatIsMissingShortOrMisaligned) {
  Plugin plugin;
  const auto attempt = [&](const std::function<void(quern_binding*, quern_span*, quern_prepare_entry&)>& damage) {
    GraphSpec graph;
    const auto x = graph.add(make(QUERN_F32, {4, 8})), y = graph.add(make(QUERN_F32, {4, 8}, QUERN_VALUE_OUTPUT));
    graph.nodes.push_back({QUERN_OP_SILU, {x}, {y}});
    Prepared prepared(plugin, graph);
    quern_span spans[2];
    quern_binding bindings[2];
    for (std::uint32_t id = 0; id < 2; ++id) {
      spans[id] = {nullptr, graph.values[id].memory->data.get(), 0, 128};
      bindings[id] = {{sizeof(quern_binding), QUERN_TYPE_BINDING, nullptr}, id, 0, {&spans[id], 1, sizeof(quern_span)}};
    }
    quern_prepare_entry entry{};
    entry.header = {sizeof(entry), QUERN_TYPE_PREPARE_ENTRY, nullptr};
    entry.instance = prepared.instance;
    entry.bindings = {bindings, 2, sizeof(quern_binding)};
    damage(bindings, spans, entry);
    const quern_array entries = {&entry, 1, sizeof(entry)};
    return plugin.api().prepare(plugin.device(), nullptr, &entries, nullptr, nullptr);
  };
  EXPECT_EQ(attempt([](auto*, auto*, auto&) {}), QUERN_OK);
  EXPECT_EQ(attempt([](auto*, auto*, auto& e) { e.bindings.count = 1; }), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(attempt([](auto*, auto* s, auto&) { s[1].bytes = 127; }), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(attempt([](auto*, auto* s, auto&) { s[0].host = nullptr; }), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(attempt([](auto*, auto* s, auto&) { s[0].host = static_cast<char*>(s[0].host) + 4; }), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(attempt([](auto* b, auto*, auto&) { b[1].value = 0; }), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(attempt([](auto* b, auto*, auto&) { b[1].value = 9; }), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(attempt([](auto* b, auto*, auto&) { b[0].flags = 1; }), QUERN_UNSUPPORTED);
  EXPECT_EQ(attempt([](auto* b, auto*, auto&) { b[0].spans.count = 0; }), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(attempt([](auto*, auto*, auto& e) { e.instance = nullptr; }), QUERN_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace quern::cpu_test
