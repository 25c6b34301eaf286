// What plan_info tells of layers of each kind, on the device that QUERN_TEST_DEVICE names: its plugin compiles, and nothing runs.
//
// Each test has the same layers for each device; CMakeLists.txt lists the devices. Usual widths, with weights in the layouts that the plugin wants.
#include "device_run/flat_graph.hpp"
#include "device_run/script.hpp"
#include "graphs/layers/layer_step.hpp"
#include "worker/loader_settings.hpp"

#include "quern/loader/loader.hpp"
#include "quern/sdk/fusion/rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

using namespace quern::conformance;

namespace {

constexpr std::int64_t most_rows = 512;

template <class T>
std::vector<T> list_of(const quern_array& list) {
  std::vector<T> result;
  for (std::uint64_t i = 0; i < list.count; ++i)
    result.push_back(*reinterpret_cast<const T*>(static_cast<const std::byte*>(list.data) + i * list.stride));
  return result;
}
std::string text(const quern_string& s) { return {s.data, s.size}; }

struct AloneNode {
  std::uint32_t node;
  bool complete;
  std::string rule, reason;
};
struct Told {
  std::uint32_t symbol;
  std::int64_t least, most;
  std::vector<std::size_t> kernels_of_node;    // one a node: how many kernels compute it
  std::vector<std::string> reasons_of_kernel;  // one a node: of the last that computes it
  std::vector<AloneNode> alone;

  const AloneNode* find(std::uint32_t node) const {
    const auto found = std::ranges::find(alone, node, &AloneNode::node);
    return found == alone.end() ? nullptr : &*found;
  }
};

class ToldSchedules : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const char* label = std::getenv("QUERN_TEST_DEVICE");
    ASSERT_NE(label, nullptr) << "QUERN_TEST_DEVICE names the device";
    Selection selection;
    selection.device = label;
    found_ = std::make_unique<quern::loader::Loader>(loader_settings(selection));
    for (const quern::loader::Candidate& candidate : found_->require())
      if (candidate.label == label) device_ = found_->open(candidate);
    ASSERT_NE(device_, nullptr) << "there is no device " << label;
  }
  static void TearDownTestSuite() {
    device_.reset();
    found_.reset();
  }
  static bool is(const char* backend) { return device_->label().starts_with(backend); }

  static const LayerFamily& family(const std::string& name) {
    for (const LayerFamily* const family : layer_families())
      if (family->name == name) return *family;
    throw std::invalid_argument(name);
  }

  /// A graph of two layers; `change` may edit its values and nodes before it is compiled.
  template <class Change>
  static std::vector<Told> compiled(const LayerFamily& of, Change change) {
    const Batch batch{"rows", most_rows, 8, 16};
    LayerStep step(of.usual, QUERN_Q4_K, batch, {most_rows}, QUERN_CONVERT_INT8 | QUERN_CONVERT_F16 | QUERN_CONVERT_BF16);
    add_layers(step, of, 2);
    return compiled(step.graph.finish(Profile::full, level_inference), change);
  }
  template <class Change>
  static std::vector<Told> compiled(const Case& c, Change change) {
    FlatGraph flat(*c.graph, Numerics::fast, {}, QUERN_DETERMINISM_REPEATABLE);
    const quern_plugin_api& api = device_->api();
    if (api.weights_plan != nullptr) {
      const quern_graph* graph = flat.graph();
      const quern_array graphs{&graph, 1, sizeof graph};
      quern_array items{};
      EXPECT_EQ(api.weights_plan(device_->handle(), &graphs, 0, &items, nullptr), QUERN_OK);
      std::vector<std::pair<int, std::string>> layouts;
      for (const quern_weight_item& item : list_of<quern_weight_item>(items))
        if (item.sources.count == 1)
          layouts.emplace_back(flat.value_of(static_cast<const quern_weight_source*>(item.sources.data)->value), text(item.layout_key));
      if (items.count != 0) api.weights_release(device_->handle(), &items, nullptr);
      for (const auto& [value, layout] : layouts) flat.set_layout(value, layout);
    }
    quern_graph graph = *flat.graph();
    std::vector<quern_value> values = list_of<quern_value>(graph.values);
    std::vector<quern_node> nodes = list_of<quern_node>(graph.nodes);
    change(values, nodes);
    graph.values = {values.data(), values.size(), sizeof(quern_value)};
    graph.nodes = {nodes.data(), nodes.size(), sizeof(quern_node)};
    return told_of(graph);
  }
  static std::vector<Told> compiled(const LayerFamily& of) {
    return compiled(of, [](auto&, auto&) {});
  }

 private:
  static std::vector<Told> told_of(const quern_graph& graph) {
    const quern_plugin_api& api = device_->api();
    quern_compile_options options{};
    options.header = {sizeof options, QUERN_TYPE_COMPILE_OPTIONS, nullptr};
    options.effort = options.fusion = 1;
    quern_plan* plan = nullptr;
    std::vector<Told> result;
    char words[1024] = {};
    quern_error error{};
    error.header = {sizeof error, QUERN_TYPE_ERROR, nullptr};
    error.text = words;
    error.text_capacity = sizeof words - 1;
    EXPECT_EQ(api.compile(device_->handle(), &graph, &options, &plan, &error), QUERN_OK) << words;
    if (plan == nullptr) return result;
    quern_plan_info info{};
    info.header = {sizeof info, QUERN_TYPE_PLAN_INFO, nullptr};
    EXPECT_EQ(api.plan_info(plan, &info, nullptr), QUERN_OK);
    for (const quern_schedule_info& schedule : list_of<quern_schedule_info>(info.schedules)) {
      Told told{schedule.symbol,
                schedule.least,
                schedule.most,
                std::vector<std::size_t>(graph.nodes.count),
                std::vector<std::string>(graph.nodes.count),
                {}};
      for (const quern_kernel_info& kernel : list_of<quern_kernel_info>(schedule.kernels))
        for (const std::uint32_t node : list_of<std::uint32_t>(kernel.nodes))
          ++told.kernels_of_node.at(node), told.reasons_of_kernel.at(node) = text(kernel.reason);
      for (const quern_alone_info& alone : list_of<quern_alone_info>(schedule.alone))
        told.alone.push_back({alone.node, (alone.flags & QUERN_ALONE_COMPLETE) != 0, text(alone.rule), text(alone.reason)});
      for (const AloneNode& alone : told.alone)
        EXPECT_NE(alone.reason, quern::sdk::fusion::missed)
            << "from " << told.least << " rows on, node " << alone.node << ", rule '" << alone.rule << "'";
      result.push_back(std::move(told));
    }
    api.plan_destroy(plan, nullptr);
    return result;
  }

  inline static std::unique_ptr<quern::loader::Loader> found_;
  inline static std::shared_ptr<quern::loader::Device> device_;
};

TEST_F(ToldSchedules, EachNodeOfALayerOfAnyKindIsInOneKernel) {
  for (const LayerFamily* const family : layer_families()) {
    const std::vector<Told> schedules = compiled(*family);
    EXPECT_FALSE(schedules.empty()) << family->name;
    for (const Told& told : schedules)
      for (std::size_t n = 0; n < told.kernels_of_node.size(); ++n)
        EXPECT_EQ(told.kernels_of_node[n], 1u) << family->name << ", from " << told.least << " rows on, node " << n;
  }
}

TEST_F(ToldSchedules, ANormOrASumThatTheHostReadsTooLeavesEachNodeInOneKernel) {
  for (const LayerFamily* const family : layer_families()) {
    std::size_t marked = 0, count = 1;
    for (std::size_t at = 0; at < count; ++at) {
      const std::vector<Told> schedules = compiled(*family, [&](std::vector<quern_value>& values, std::vector<quern_node>& nodes) {
        std::vector<quern_value*> results;
        for (const quern_node& node : nodes)
          if (node.op == QUERN_OP_RMS_NORM || node.op == QUERN_OP_LAYER_NORM || node.op == QUERN_OP_ADD)
            results.push_back(&values.at(*static_cast<const std::uint32_t*>(node.outputs.data)));
        count = results.size();
        if (results.at(at)->kind == QUERN_VALUE_INTERNAL) results[at]->kind = QUERN_VALUE_OUTPUT, ++marked;
      });
      ASSERT_FALSE(schedules.empty()) << family->name << ", the " << at << "th norm or sum";
      for (const Told& told : schedules)
        EXPECT_TRUE(std::ranges::all_of(told.kernels_of_node, [](std::size_t n) { return n == 1; }))
            << family->name << ", the " << at << "th norm or sum, from " << told.least << " rows on";
    }
    EXPECT_GT(marked, 0u) << family->name;
  }
}

TEST_F(ToldSchedules, EveryReasonIsThatOfARuleOrThereIsNoRule) {
  for (const LayerFamily* const family : layer_families())
    for (const Told& told : compiled(*family))
      for (const AloneNode& alone : told.alone) {
        EXPECT_FALSE(alone.reason.empty()) << family->name << ", node " << alone.node;
        EXPECT_TRUE(!alone.rule.empty() || alone.complete || alone.reason.find("no rule") != std::string::npos)
            << family->name << ", node " << alone.node << ": " << alone.reason;
      }
}

/// Rotations of queries and keys write heads that lie twice as far apart as they need to: strided values.
void stride_rotations(std::vector<quern_value>& values, std::vector<quern_node>& nodes) {
  for (const quern_node& node : nodes) {
    if (node.op != QUERN_OP_ROPE) continue;
    quern_value& y = values.at(*static_cast<const std::uint32_t*>(node.outputs.data));
    y.uses |= QUERN_VALUE_USES_STRIDES;
    y.strides[2] = 4;
    y.strides[1] = 2 * 4 * y.dims[2];
    y.strides[0] = y.strides[1] * y.dims[1];
  }
}

TEST_F(ToldSchedules, OfALayerWithNormsOfQueriesAndKeysNoNodeFallsOff) {
  const std::vector<Told> schedules = compiled(family("qwen3"));
  ASSERT_FALSE(schedules.empty());
  for (const AloneNode& alone : schedules.front().alone)
    EXPECT_TRUE(alone.rule.empty()) << "node " << alone.node << ", rule '" << alone.rule << "': " << alone.reason;
}

TEST_F(ToldSchedules, AStridedViewLetsItsNodesFallOffAndSaysWhy) {
  std::vector<std::uint32_t> rotations, products;
  const auto change = [&](std::vector<quern_value>& values, std::vector<quern_node>& nodes) {
    stride_rotations(values, nodes);
    for (std::uint32_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n].op == QUERN_OP_ROPE) rotations.push_back(n);
      if (nodes[n].op == QUERN_OP_MATMUL) products.push_back(n);
    }
  };
  const std::vector<Told> schedules = compiled(family("qwen3"), change);
  ASSERT_FALSE(schedules.empty());
  const Told& one_row = schedules.front();
  ASSERT_FALSE(rotations.empty());
  std::size_t fell_off = 0;  // the CPU's writes of values may still stand with the rotation of keys
  for (const std::uint32_t n : rotations) {
    const AloneNode* alone = one_row.find(n);
    if (alone == nullptr) continue;
    ++fell_off;
    EXPECT_FALSE(alone->complete);
    EXPECT_FALSE(alone->rule.empty());
    EXPECT_NE(alone->reason.find("strided"), std::string::npos) << alone->reason;
  }
  EXPECT_GE(fell_off, rotations.size() / 2);
  for (const std::uint32_t n : products) {  // the others keep their rules
    const AloneNode* alone = one_row.find(n);
    EXPECT_TRUE(alone == nullptr || alone->complete) << "product " << n << ": " << (alone == nullptr ? "" : alone->reason);
  }
}

/// The first node of an op is no part of a step with others.
struct Lonely {
  std::uint32_t op, node = QUERN_NONE;
  void operator()(std::vector<quern_value>&, std::vector<quern_node>& nodes) {
    const auto first = std::ranges::find(nodes, op, &quern_node::op);
    if (first == nodes.end()) return;
    node = static_cast<std::uint32_t>(first - nodes.begin());
    first->uses |= QUERN_NODE_USES_DETERMINISM;
    first->determinism = QUERN_DETERMINISM_INVARIANT;
  }
};

/// The table of rules is asked again of what a schedule left, and finds nothing more: one pass is its fixed point (told_of looks).
TEST_F(ToldSchedules, NoRuleTakesANodeThatAScheduleLeft) {
  const std::uint32_t ops[] = {QUERN_OP_MATMUL, QUERN_OP_MATMUL_ID, QUERN_OP_ATTENTION, QUERN_OP_GLU, QUERN_OP_RMS_NORM};
  for (const LayerFamily* const family : layer_families()) {
    SCOPED_TRACE(family->name);
    EXPECT_FALSE(compiled(*family).empty());
    compiled(*family, stride_rotations);
    for (const std::uint32_t op : ops) compiled(*family, Lonely{op});
  }
}

/// Each rule says of its own nodes what is in the way, whichever node of the pattern that is.
TEST_F(ToldSchedules, ActivationsExpertsAndNormsWithASumAreToldTheirRules) {
  if (!is("cuda")) GTEST_SKIP() << "the other backends have no such rules";
  struct {
    const char* family;
    std::uint32_t op, told_op;
    const char* rule;
  } const cases[] = {{"gpt_neox", QUERN_OP_GELU, QUERN_OP_GELU, "activation"},
                     {"mixtral", QUERN_OP_GLU, QUERN_OP_GLU, "experts"},
                     {"mixtral", QUERN_OP_GLU, QUERN_OP_MOE_COMBINE, "experts"},
                     {"olmo2", QUERN_OP_ADD, QUERN_OP_ADD, "norm and sum"}};
  for (const auto& one : cases) {
    std::uint32_t told_node = QUERN_NONE;
    Lonely lonely{one.op};
    const std::vector<Told> schedules = compiled(family(one.family), [&](auto& values, auto& nodes) {
      lonely(values, nodes);
      told_node = static_cast<std::uint32_t>(std::ranges::find(nodes, one.told_op, &quern_node::op) - nodes.begin());
    });
    std::size_t found = 0;
    for (const Told& told : schedules) {
      const AloneNode* const alone = told.find(told_node);
      if (alone == nullptr) continue;  // of few pairs the weighted sum is still the end of its product
      ++found;
      EXPECT_EQ(alone->rule, one.rule) << one.family;
      EXPECT_EQ(alone->reason, "its rows must not depend on the batch") << one.family << ", from " << told.least << " rows on";
    }
    EXPECT_GT(found, 0u) << one.family << ", node " << told_node;
  }
}

TEST_F(ToldSchedules, KernelOfAGatedActivationSaysWhyGateAndUpAreNoPair) {
  if (!is("vulkan")) GTEST_SKIP() << "the other backends have one kernel of gate, up and activation for any number of rows, or none";
  std::uint32_t glu = QUERN_NONE;
  const auto find_glu = [&](auto&, std::vector<quern_node>& nodes) {
    glu = static_cast<std::uint32_t>(std::ranges::find(nodes, std::uint32_t{QUERN_OP_GLU}, &quern_node::op) - nodes.begin());
  };
  EXPECT_EQ(compiled(family("llama"), find_glu).at(0).reasons_of_kernel.at(glu), "");
  const auto alone_gate = [&](std::vector<quern_value>& values, std::vector<quern_node>& nodes) {
    find_glu(values, nodes);
    const std::uint32_t gate = *static_cast<const std::uint32_t*>(nodes.at(glu).inputs.data);
    for (quern_node& node : nodes)
      if (node.op == QUERN_OP_MATMUL && *static_cast<const std::uint32_t*>(node.outputs.data) == gate) {
        node.uses |= QUERN_NODE_USES_DETERMINISM;
        node.determinism = QUERN_DETERMINISM_INVARIANT;
      }
  };
  EXPECT_EQ(compiled(family("llama"), alone_gate).at(0).reasons_of_kernel.at(glu), "its rows must not depend on the batch");
}

/// Penalties, biases and a draw. `told`: the host reads the logits behind the penalties.
Case draw(bool told) {
  constexpr std::int64_t rows = 2, vocab = 512;
  GraphBuilder g(rows);
  const auto given = [&](const char* name, quern_dtype dtype, Dims dims) { return g.input(name, input(dtype, std::move(dims))); };
  const int logits = given("logits", QUERN_F32, {rows, vocab}), params = given("params", QUERN_F32, {rows, 8});
  const int penalised =
      g.node(QUERN_OP_PENALIZE, "penalised",
             {logits, given("history", QUERN_I32, {rows, 8}), given("history_len", QUERN_I32, {rows}), params}, {rows, vocab});
  if (told) g.output(penalised);
  const int biased = g.node(QUERN_OP_LOGIT_BIAS, "biased",
                            {penalised, given("bias_token", QUERN_I32, {rows, 2}), given("bias", QUERN_F32, {rows, 2})}, {rows, vocab});
  const int token = g.internal("token", QUERN_I32, {rows}), logprob = g.internal("logprob", QUERN_F32, {rows});
  g.node_into(QUERN_OP_SAMPLE, {biased, params, given("seed", QUERN_U32, {rows, 2}), given("step", QUERN_I32, {rows})}, {token, logprob});
  g.output(token), g.output(logprob);
  return g.finish(Profile::full, level_inference);
}

TEST_F(ToldSchedules, EachStepOfADrawIsToldWhyItStandsAlone) {
  if (!is("vulkan")) GTEST_SKIP() << "the other backends have no rule of draws";
  const auto as_it_is = [](auto&, auto&) {};
  EXPECT_TRUE(compiled(draw(false), as_it_is).at(0).alone.empty());
  const std::vector<AloneNode> alone = compiled(draw(true), as_it_is).at(0).alone;
  EXPECT_EQ(alone.size(), 3u);
  for (const AloneNode& node : alone) {
    EXPECT_EQ(node.rule, "draw");
    EXPECT_EQ(node.reason, "the host reads the logits behind the penalties");
  }
}

TEST_F(ToldSchedules, OfLayersWithPartsOfFusedWeightsNoNodeFallsOff) {
  for (const char* const name : {"phi3", "fused_weights"}) {
    const std::vector<Told> schedules = compiled(family(name));
    ASSERT_FALSE(schedules.empty()) << name;
    for (const AloneNode& alone : schedules.front().alone)
      EXPECT_TRUE(alone.rule.empty()) << name << ", node " << alone.node << ", rule '" << alone.rule << "': " << alone.reason;
  }
}

/// Of each product of a layer in turn: alone where it is unlike the others, which keep their rules.
TEST_F(ToldSchedules, AProductThatMustNotDependOnTheBatchFallsOffByItself) {
  std::vector<std::uint32_t> products;
  std::size_t count = 1;
  for (std::size_t at = 0; at < count; ++at) {
    const std::vector<Told> schedules = compiled(family("llama"), [&](auto&, std::vector<quern_node>& nodes) {
      products.clear();
      for (std::uint32_t n = 0; n < nodes.size(); ++n)
        if (nodes[n].op == QUERN_OP_MATMUL) products.push_back(n);
      count = products.size();
      nodes[products.at(at)].uses |= QUERN_NODE_USES_DETERMINISM;
      nodes[products[at]].determinism = QUERN_DETERMINISM_INVARIANT;
    });
    ASSERT_FALSE(schedules.empty());
    for (const std::uint32_t n : products) {
      const AloneNode* alone = schedules.front().find(n);
      if (n != products[at]) {
        EXPECT_TRUE(alone == nullptr || alone->complete) << "product " << n << ": " << (alone == nullptr ? "" : alone->reason);
      } else if (!is("cpu")) {
        ASSERT_NE(alone, nullptr) << "product " << n;
        EXPECT_EQ(alone->reason, "its rows must not depend on the batch");
      }
    }
  }
}

}  // namespace
