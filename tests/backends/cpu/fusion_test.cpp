// Fused steps: which neighbours become one, and that they give the bits of the kernels one after another.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>

namespace quern::cpu_test {
namespace {

constexpr std::int64_t most_tokens = 40, hidden = 256, heads = 4, kv_heads = 2, head = 64, ffn = 512, page = 16, pages = 4;

/// What a layer is made of.
struct LayerOptions {
  quern_dtype weights = QUERN_Q4_K, value_weights = QUERN_Q6_K;  // value_weights: of v and down
  bool bias = false;                                             // of q, k and v
  std::uint32_t conversions = QUERN_CONVERT_INT8;
  double gate_kind = 0, limit = HUGE_VAL;  // of glu
};

/// A decoder layer as the runtime builds it, x to y, with values that a test may want to look at.
struct Layer {
  GraphSpec graph;
  std::uint32_t x, normed, gate, product, y, key_cache, value_cache;
  std::vector<std::uint32_t> constants;
};

class Builder {
 public:
  explicit Builder(const LayerOptions& options) : options_(options) {
    layer.graph.symbols = {{{"tokens", 6}, 0, most_tokens, 1, QUERN_NONE, 0}};
  }
  Layer layer;

  std::uint32_t rows(std::vector<std::int64_t> dims, std::uint32_t kind = QUERN_VALUE_INTERNAL, quern_dtype dtype = QUERN_F32) {
    Tensor t = make(dtype, std::move(dims), kind);
    t.symbols.assign(t.dims.size(), 0);
    t.symbols[0] = 1;
    return layer.graph.add(t);
  }
  std::uint32_t weight(quern_dtype dtype, std::vector<std::int64_t> dims) {
    Tensor t = random_tensor(dtype, std::move(dims), 100 + static_cast<std::uint32_t>(layer.graph.values.size()));
    t.kind = QUERN_VALUE_CONSTANT;
    const std::uint32_t id = layer.graph.add(t);
    if (dtype != QUERN_F32) layer.constants.push_back(id);
    return id;
  }
  std::uint32_t seen_as(std::uint32_t value, std::vector<std::int64_t> dims) {
    Tensor t = make(QUERN_F32, std::move(dims), QUERN_VALUE_INTERNAL);
    t.symbols.assign(t.dims.size(), 0);
    t.symbols[0] = 1;
    t.alias_of = value;
    return layer.graph.add(t);
  }
  void node(std::uint32_t op, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
            std::vector<Attribute> attributes = {}) {
    NodeSpec spec{op, std::move(inputs), std::move(outputs), std::move(attributes)};
    spec.conversions = options_.conversions;
    layer.graph.nodes.push_back(std::move(spec));
  }
  std::uint32_t product(std::uint32_t a, std::int64_t k, std::int64_t n, quern_dtype dtype, bool bias) {
    const std::uint32_t y = rows({most_tokens, n}), b = weight(dtype, {n, k});
    std::vector<std::uint32_t> inputs = {a, b};
    if (bias) inputs.push_back(weight(QUERN_F32, {n}));
    node(QUERN_OP_MATMUL, inputs, {y});
    return y;
  }
  std::uint32_t norm(std::uint32_t x) {
    const std::uint32_t y = rows({most_tokens, hidden});
    node(QUERN_OP_RMS_NORM, {x, weight(QUERN_F32, {hidden})}, {y}, {{QUERN_KEY_EPSILON, 1e-5}});
    return y;
  }

 private:
  const LayerOptions& options_;
};

Layer make_layer(const LayerOptions& o) {
  Builder b(o);
  Layer& l = b.layer;
  std::vector<std::int32_t> positions, slots(most_tokens, 0), table(pages);
  for (std::int32_t i = 0; i < most_tokens; ++i) positions.push_back(i);
  for (std::int32_t i = 0; i < pages; ++i) table[i] = pages - 1 - i;
  Tensor position = ints({most_tokens}, positions), slot = ints({most_tokens}, slots);
  Tensor x = random_tensor(QUERN_F32, {most_tokens, hidden}, 1);
  position.symbols = slot.symbols = {1};
  x.symbols = {1, 0};
  l.x = l.graph.add(x);
  const std::uint32_t ip = l.graph.add(position), is = l.graph.add(slot), it = l.graph.add(ints({1, pages}, table));
  const std::uint32_t angles = l.graph.add(random_tensor(QUERN_F32, {64, head / 2, 2}, 2));
  l.key_cache = l.graph.add(make(QUERN_F16, {pages, kv_heads, page, head}, QUERN_VALUE_STATE));
  l.value_cache = l.graph.add(make(QUERN_F16, {pages, kv_heads, page, head}, QUERN_VALUE_STATE));

  l.normed = b.norm(l.x);
  const std::uint32_t q = b.product(l.normed, hidden, heads * head, o.weights, o.bias);
  const std::uint32_t k = b.product(l.normed, hidden, kv_heads * head, o.weights, o.bias);
  const std::uint32_t v = b.product(l.normed, hidden, kv_heads * head, o.value_weights, o.bias);
  const std::uint32_t qh = b.seen_as(q, {most_tokens, heads, head}), kh = b.seen_as(k, {most_tokens, kv_heads, head});
  const std::uint32_t vh = b.seen_as(v, {most_tokens, kv_heads, head});
  const std::uint32_t qr = b.rows({most_tokens, heads, head}), kr = b.rows({most_tokens, kv_heads, head});
  b.node(QUERN_OP_ROPE, {qh, ip, angles}, {qr});
  b.node(QUERN_OP_ROPE, {kh, ip, angles}, {kr});
  b.node(QUERN_OP_KV_WRITE, {kr, it, is, ip}, {l.key_cache});
  b.node(QUERN_OP_KV_WRITE, {vh, it, is, ip}, {l.value_cache});
  const std::uint32_t attended = b.rows({most_tokens, heads, head});
  b.node(QUERN_OP_ATTENTION, {qr, l.key_cache, l.value_cache, it, is, ip}, {attended}, {{QUERN_KEY_SCALE, 0.125}});
  const std::uint32_t joined = b.seen_as(attended, {most_tokens, hidden});
  l.product = b.product(joined, hidden, hidden, o.weights, false);
  const std::uint32_t between = b.rows({most_tokens, hidden});
  b.node(QUERN_OP_ADD, {l.x, l.product}, {between});
  const std::uint32_t second = b.norm(between);
  l.gate = b.product(second, hidden, ffn, o.weights, false);
  const std::uint32_t up = b.product(second, hidden, ffn, o.weights, false), activated = b.rows({most_tokens, ffn});
  b.node(QUERN_OP_GLU, {l.gate, up}, {activated}, {{QUERN_KEY_KIND, o.gate_kind}, {QUERN_KEY_LIMIT, o.limit}});
  const std::uint32_t down = b.product(activated, ffn, hidden, o.value_weights, false);
  l.y = b.rows({most_tokens, hidden}, QUERN_VALUE_OUTPUT);
  b.node(QUERN_OP_ADD, {between, down}, {l.y});
  return b.layer;
}

struct Ran {
  std::vector<std::string> kernels;  // one a step
  std::uint64_t scratch = 0;
  std::vector<std::uint8_t> bytes;  // of y, both caches, and the values in `also`
};

/// Runs `tokens` rows of a layer with every output cleared before.
Ran run_layer(Plugin& plugin, Layer& layer, bool fuse, std::int64_t tokens, const std::vector<std::uint32_t>& also = {}) {
  plugin.fuse = fuse;
  std::vector<std::uint32_t> looked_at = {layer.y, layer.key_cache, layer.value_cache};
  looked_at.insert(looked_at.end(), also.begin(), also.end());
  for (const std::uint32_t id : looked_at) std::memset(layer.graph.values[id].raw().data(), 0, layer.graph.values[id].raw().size());
  Prepared prepared(plugin, layer.graph);
  EXPECT_EQ(prepared.outcome.status, QUERN_OK) << prepared.outcome.text;
  Ran ran;
  if (prepared.outcome.status != QUERN_OK) return ran;
  const Outcome outcome = prepared.submit({{0, 0, tokens}});
  EXPECT_EQ(outcome.status, QUERN_OK) << outcome.text;
  EXPECT_EQ(outcome.faults, 0u);
  quern_plan_info info{};
  info.header = {sizeof(info), QUERN_TYPE_PLAN_INFO, nullptr};
  EXPECT_EQ(plugin.api().plan_info(prepared.plan, &info, nullptr), QUERN_OK);
  std::uint32_t node = 0;
  for (std::uint64_t i = 0; i < info.kernels.count; ++i) {
    const auto& kernel = static_cast<const quern_kernel_info*>(info.kernels.data)[i];
    EXPECT_EQ(kernel.node, node);
    node += kernel.node_count;
    ran.kernels.emplace_back(kernel.name.data, kernel.name.size);
  }
  EXPECT_EQ(node, layer.graph.nodes.size());
  EXPECT_EQ(info.launches, info.kernels.count);
  ran.scratch = prepared.info.scratch_bytes;
  for (const std::uint32_t id : looked_at) {
    const auto raw = layer.graph.values[id].raw();
    ran.bytes.insert(ran.bytes.end(), raw.begin(), raw.end());
  }
  return ran;
}

std::vector<std::string> names(const std::string& family, std::vector<std::string> stems) {
  for (std::string& stem : stems)
    stem += "." + (family == "amx" && !stem.ends_with(".packed") ? "avx512" : family);  // amx is for packed products alone
  return stems;
}

TEST(Fusion, ALayerOfPackedWeightsHasSixSteps) {
  for (const std::string& family : packing_families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    Layer layer = make_layer({});
    pack_constants(plugin, layer.graph);
    const Ran apart = run_layer(plugin, layer, false, 3), fused = run_layer(plugin, layer, true, 3);
    EXPECT_EQ(apart.kernels.size(), layer.graph.nodes.size());
    EXPECT_EQ(fused.kernels, names(family, {"norm_matmul.packed", "rope_kv_write", "attention", "matmul_add.packed", "matmul_glu.packed",
                                            "matmul_add.packed"}));
    EXPECT_LT(fused.scratch, apart.scratch);  // gate, up and the norms have no memory
  }
}

TEST(Fusion, AGateOfEveryKindIsOneStepWithItsProducts) {
  for (const std::string& family : packing_families())
    for (const double kind : {0.0, 1.0, 2.0, 3.0, 4.0})
      for (const double limit : {7.0, HUGE_VAL}) {
        Plugin plugin(2, {{"force_kernel", family}});
        LayerOptions options;
        options.gate_kind = kind;
        options.limit = limit;
        Layer layer = make_layer(options);
        pack_constants(plugin, layer.graph);
        const Ran ran = run_layer(plugin, layer, true, 3);
        EXPECT_EQ(ran.kernels.size(), 6u) << family << ", kind " << kind << ", limit " << limit;
        EXPECT_EQ(ran.kernels[4], "matmul_glu.packed." + family);
      }
}

TEST(Fusion, StepsGiveTheBitsOfTheirNodesForEveryFormatBatchAndThreadCount) {
  const std::vector<LayerOptions> cases = {{QUERN_Q4_K, QUERN_Q6_K},
                                           {QUERN_Q4_0, QUERN_Q4_0},
                                           {QUERN_Q8_0, QUERN_Q5_0, true},
                                           {QUERN_F16, QUERN_BF16, true},
                                           {QUERN_Q4_0, QUERN_Q6_K},  // v wants other activations than q and k
                                           {QUERN_Q4_K, QUERN_Q4_K, false, QUERN_CONVERT_NONE},
                                           {QUERN_Q4_K, QUERN_Q4_K, false, QUERN_CONVERT_INT8, 1},
                                           {QUERN_Q8_0, QUERN_Q8_0, false, QUERN_CONVERT_INT8, 2, 0.5}};
  for (const std::string& family : families())
    for (const LayerOptions& options : cases) {
      Layer layer = make_layer(options);
      {
        Plugin plugin(1, {{"force_kernel", family}});
        pack_constants(plugin, layer.graph);
      }
      using Batches = std::vector<std::int64_t>;
      const Batches batches = family == "portable" ? Batches{0, 3} : Batches{0, 1, 2, 9, 17, 40};
      std::map<std::int64_t, std::vector<std::uint8_t>> expected;  // by tokens
      for (const std::uint32_t threads : {1u, 2u, 3u}) {
        Plugin plugin(threads, {{"force_kernel", family}});
        for (const bool fuse : {false, true})
          for (const std::int64_t tokens : batches) {
            const Ran ran = run_layer(plugin, layer, fuse, tokens);
            const auto first = expected.try_emplace(tokens, ran.bytes).first;
            ASSERT_EQ(ran.bytes, first->second)
                << family << ", format " << options.weights << ", " << tokens << " tokens, " << threads << " threads, fuse " << fuse;
          }
      }
    }
}

TEST(Fusion, AValueThatOthersReadIsStillMade) {
  for (const std::string& family : packing_families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    const std::vector<std::function<std::uint32_t(const Layer&)>> values = {
        [](const Layer& l) { return l.normed; }, [](const Layer& l) { return l.gate; }, [](const Layer& l) { return l.product; }};
    for (const auto& value : values) {
      Layer layer = make_layer({});
      layer.graph.values[value(layer)].kind = QUERN_VALUE_OUTPUT;
      pack_constants(plugin, layer.graph);
      const std::vector<std::uint32_t> also = {value(layer)};
      EXPECT_EQ(run_layer(plugin, layer, true, 5, also).bytes, run_layer(plugin, layer, false, 5, also).bytes);
    }
  }
}

TEST(Fusion, ANodeWithAPredicateStaysApart) {
  for (const std::string& family : packing_families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    Layer layer = make_layer({});
    pack_constants(plugin, layer.graph);
    layer.graph.nodes.back().predicate = layer.graph.add(ints({1}, {0}));
    const Ran ran = run_layer(plugin, layer, true, 5);
    EXPECT_EQ(ran.kernels.back(), "add.rows." + family_of_plain_weights(family));
    EXPECT_EQ(layer.graph.values[layer.y].f32()[0], 0.0f);  // not written
  }
}

TEST(Fusion, AKernelForcedByNameRunsAsItself) {
  const std::string family = families().back();
  if (family == "portable") GTEST_SKIP() << "this processor packs nothing";
  Plugin plugin(2, {{"force_kernel", "matmul.q4_k.packed." + family}});
  Layer layer = make_layer({QUERN_Q4_K, QUERN_Q4_K});
  pack_constants(plugin, layer.graph);
  const Ran ran = run_layer(plugin, layer, true, 2);
  EXPECT_EQ(ran.kernels.size(), layer.graph.nodes.size());
  EXPECT_EQ(ran.kernels[1], "matmul.q4_k.packed." + family);
}

}  // namespace
}  // namespace quern::cpu_test
