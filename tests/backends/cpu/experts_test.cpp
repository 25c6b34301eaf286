// Packed experts: which are planned, and that matmul_id and the fused gate have the bits of plain packed products of the same rows.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace quern::cpu_test {
namespace {

constexpr quern_dtype all_weights[] = {QUERN_F32,  QUERN_F16,  QUERN_BF16, QUERN_Q4_0, QUERN_Q4_1, QUERN_Q5_0,
                                       QUERN_Q5_1, QUERN_Q8_0, QUERN_Q4_K, QUERN_Q5_K, QUERN_Q6_K};

Tensor constant(quern_dtype dtype, std::vector<std::int64_t> dims, std::uint32_t seed) {
  Tensor t = random_tensor(dtype, std::move(dims), seed);
  t.kind = QUERN_VALUE_CONSTANT;
  return t;
}

void node(GraphSpec& graph, std::uint32_t op, std::vector<std::uint32_t> inputs, std::uint32_t output,
          std::vector<Attribute> attributes = {}, std::uint32_t conversions = QUERN_CONVERT_INT8) {
  NodeSpec spec{op, std::move(inputs), {output}, std::move(attributes)};
  spec.conversions = conversions;
  graph.nodes.push_back(std::move(spec));
}

GraphSpec chosen(const Tensor& a, const Tensor& b, const Tensor& id, const Tensor& y, std::uint32_t conversions = QUERN_CONVERT_INT8) {
  GraphSpec graph;
  const std::uint32_t ia = graph.add(a), ib = graph.add(b), ii = graph.add(id), iy = graph.add(y);
  node(graph, QUERN_OP_MATMUL_ID, {ia, ib, ii}, iy, {}, conversions);
  return graph;
}

std::vector<std::string> keys(Plugin& plugin, GraphSpec& graph) {
  const quern_graph* built = graph.build();
  const quern_array list{&built, 1, sizeof(built)};
  quern_array items{};
  EXPECT_EQ(plugin.api().weights_plan(plugin.device(), &list, 0, &items, nullptr), QUERN_OK);
  std::vector<std::string> result;
  for (std::uint64_t i = 0; i < items.count; ++i) {
    const auto& item = static_cast<const quern_weight_item*>(items.data)[i];
    result.emplace_back(item.layout_key.data, item.layout_key.size);
  }
  if (items.count != 0) { EXPECT_EQ(plugin.api().weights_release(plugin.device(), &items, nullptr), QUERN_OK); }
  return result;
}

std::vector<std::uint8_t> bytes_of(const Tensor& t) { return {t.raw().begin(), t.raw().end()}; }

/// y[t][u] by packed matmuls, an expert at a time over all rows of a; zeros where the id is no expert.
std::vector<std::uint8_t> by_packed_matmuls(Plugin& plugin, const Tensor& a, const Tensor& b, const Tensor& id) {
  const std::int64_t tokens = a.dims[0], rows = a.dims[1], used = id.dims[1], experts = b.dims[0], n = b.dims[1], k = b.dims[2];
  const std::size_t row_bytes = static_cast<std::size_t>(n) * 4;
  std::vector<std::uint8_t> y(static_cast<std::size_t>(tokens * used) * row_bytes, 0);
  for (std::int64_t e = 0; e < experts; ++e) {
    Tensor flat = a;
    flat.dims = {tokens * rows, k};
    const Tensor weights = make(b.dtype, {n, k}, QUERN_VALUE_CONSTANT), product = make(QUERN_F32, {tokens * rows, n}, QUERN_VALUE_OUTPUT);
    std::memcpy(weights.raw().data(), b.raw().data() + static_cast<std::size_t>(e) * weights.bytes(), weights.bytes());
    GraphSpec graph;
    const std::uint32_t ia = graph.add(flat), ib = graph.add(weights), iy = graph.add(product);
    node(graph, QUERN_OP_MATMUL, {ia, ib}, iy);
    pack_constants(plugin, graph);
    const Outcome outcome = plugin.run(graph);
    EXPECT_EQ(outcome.status, QUERN_OK) << outcome.text;
    for (std::int64_t pair = 0; pair < tokens * used; ++pair) {
      if (id.integers()[static_cast<std::size_t>(pair)] != e) continue;
      const std::int64_t row = rows == 1 ? pair / used : pair;
      std::memcpy(y.data() + static_cast<std::size_t>(pair) * row_bytes, product.raw().data() + static_cast<std::size_t>(row) * row_bytes,
                  row_bytes);
    }
  }
  return y;
}

/// Ids of `experts` experts: one (the second) has most of the tokens, one (the third) none, some pairs have -1.
Tensor uneven_ids(std::int64_t tokens, std::int64_t used, std::int32_t experts) {
  std::vector<std::int32_t> id;
  for (std::int64_t i = 0; i < tokens * used; ++i) {
    const auto any = static_cast<std::int32_t>(i * 7 % 11 % experts);
    id.push_back(i % 13 == 5 ? -1 : i % 3 != 0 || any == 2 ? 1 : any);
  }
  return ints({tokens, used}, id);
}

TEST(Experts, HaveTheBitsOfPackedMatricesForEveryFormatAndNumberOfRows) {
  constexpr std::int64_t experts = 5, n = 37, k = 512;  // n is no multiple of a panel: each expert begins one
  for (const std::string& family : packing_families()) {
    Plugin plugin(2, {{"force_kernel", family}}), three(3, {{"force_kernel", family}});
    for (const quern_dtype dtype : all_weights)
      for (const std::int64_t tokens : {1, 7, 150}) {
        if (tokens == 150 && dtype != QUERN_Q4_K && dtype != QUERN_Q4_0 && dtype != QUERN_F16) continue;
        for (const std::int64_t rows : {1, 3}) {
          const Tensor a = random_tensor(QUERN_F32, {tokens, rows, k}, 1), b = constant(dtype, {experts, n, k}, 2),
                       id = uneven_ids(tokens, 3, experts);
          const Tensor y = make(QUERN_F32, {tokens, 3, n}, QUERN_VALUE_OUTPUT);
          GraphSpec graph = chosen(a, b, id, y);
          pack_constants(plugin, graph);
          std::string kernel;
          const Outcome outcome = plugin.run(graph, {}, &kernel);
          ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
          EXPECT_EQ(outcome.faults, 0u);
          EXPECT_TRUE(kernel.starts_with("matmul_id.") && kernel.find(".packed.") != std::string::npos) << kernel;
          const std::vector<std::uint8_t> got = bytes_of(y);
          ASSERT_EQ(got, by_packed_matmuls(plugin, a, b, id)) << kernel << ", " << tokens << " tokens, " << rows << " rows each";
          ASSERT_EQ(three.run(graph).status, QUERN_OK);
          ASSERT_EQ(got, bytes_of(y)) << kernel << ": other threads";
        }
      }
  }
}

TEST(Experts, ReadAndWriteStridedRowsOfHalves) {
  for (const std::string& family : packing_families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    const Tensor b = constant(QUERN_Q8_0, {3, 33, 64}, 3), id = ints({4, 2}, {0, 2, 2, 1, 1, 0, 2, 0});
    Tensor a = random_tensor(QUERN_F16, {4, 2, 80}, 4);
    a.dims = {4, 2, 64};
    a.strides = {2 * 80 * 2, 80 * 2, 2};
    const Tensor packed_a = make(QUERN_F16, {4, 2, 64}), y = make(QUERN_BF16, {4, 2, 33}, QUERN_VALUE_OUTPUT),
                 z = make(QUERN_BF16, {4, 2, 33}, QUERN_VALUE_OUTPUT);
    for (std::size_t row = 0; row < 8; ++row) std::memcpy(packed_a.raw().data() + row * 128, a.memory->data.get() + row * 160, 128);
    GraphSpec strided = chosen(a, b, id, y), plain = chosen(packed_a, b, id, z);
    for (GraphSpec* graph : {&strided, &plain}) {
      pack_constants(plugin, *graph);
      const Outcome outcome = plugin.run(*graph);
      ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
    }
    EXPECT_EQ(bytes_of(y), bytes_of(z)) << family;
    EXPECT_NE(y.floats()[0], 0.0f);
  }
}

TEST(Experts, AnIdOutOfRangeGivesZerosAndAFaultAndMinusOneZerosOnly) {
  for (const std::string& family : packing_families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    const Tensor a = random_tensor(QUERN_F32, {2, 1, 256}, 9), b = constant(QUERN_Q4_K, {2, 300, 256}, 10),
                 y = make(QUERN_F32, {2, 2, 300}, QUERN_VALUE_OUTPUT);
    for (const auto& [bad, fault] : {std::pair{2, QUERN_FAULT_INDEX_RANGE}, std::pair{-2, QUERN_FAULT_INDEX_RANGE},
                                     std::pair{-1, decltype(QUERN_FAULT_INDEX_RANGE){0}}}) {
      std::fill(y.f32().begin(), y.f32().end(), 7.0f);
      GraphSpec graph = chosen(a, b, ints({2, 2}, {0, bad, bad, bad}), y);
      pack_constants(plugin, graph);
      const Outcome outcome = plugin.run(graph);
      ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
      EXPECT_EQ(outcome.faults, fault) << bad;
      EXPECT_NE(y.f32()[0], 0.0f);
      for (std::size_t i = 300; i < 1200; ++i) ASSERT_EQ(y.f32()[i], 0.0f) << bad;
    }
  }
}

TEST(Experts, ArePlannedWhereOnlyProductsOverChosenExpertsThatMayRoundReadThem) {
  for (const std::string& family : packing_families()) {
    Plugin plugin(1, {{"force_kernel", family}});
    const Tensor a = random_tensor(QUERN_F32, {2, 1, 512}, 1), b = constant(QUERN_Q4_K, {4, 37, 512}, 2), id = ints({2, 1}, {3, 0});
    const Tensor y = make(QUERN_F32, {2, 1, 37}, QUERN_VALUE_OUTPUT);
    GraphSpec graph = chosen(a, b, id, y);
    const std::vector<std::string> planned = keys(plugin, graph);
    ASSERT_EQ(planned.size(), 1u) << family;
    EXPECT_TRUE(planned[0].starts_with("q4_k.") && planned[0].ends_with("/4x37x512")) << planned[0];
    GraphSpec exact = chosen(a, b, id, y, QUERN_CONVERT_NONE);
    EXPECT_EQ(keys(plugin, exact).size(), 0u);
    GraphSpec batched = chosen(a, b, id, y);  // a product of a batch of matrices reads blocks
    const std::uint32_t rows = batched.add(random_tensor(QUERN_F32, {4, 2, 512}, 3)),
                        out = batched.add(make(QUERN_F32, {4, 2, 37}, QUERN_VALUE_OUTPUT));
    node(batched, QUERN_OP_MATMUL, {rows, 1}, out);
    EXPECT_EQ(keys(plugin, batched).size(), 0u);
    GraphSpec input = chosen(a, random_tensor(QUERN_Q4_K, {4, 37, 512}, 2), id, y);
    EXPECT_EQ(keys(plugin, input).size(), 0u);
  }
  for (const char* force : {"portable", "matmul_id.q4_k.portable"}) {
    Plugin forced(1, {{"force_kernel", force}});
    GraphSpec graph = chosen(random_tensor(QUERN_F32, {2, 1, 512}, 1), constant(QUERN_Q4_K, {4, 37, 512}, 2), ints({2, 1}, {3, 0}),
                             make(QUERN_F32, {2, 1, 37}, QUERN_VALUE_OUTPUT));
    EXPECT_EQ(keys(forced, graph).size(), 0u) << force;
    EXPECT_EQ(forced.run(graph).status, QUERN_OK);
  }
}

TEST(Experts, ALayoutOfOtherExpertsIsAnsweredNo) {
  if (packing_families().empty()) GTEST_SKIP() << "this processor has no packed layouts";
  Plugin plugin(1);
  const Tensor a = random_tensor(QUERN_F32, {2, 1, 512}, 1), b = constant(QUERN_Q4_0, {4, 16, 512}, 2), id = ints({2, 1}, {3, 0});
  GraphSpec good = chosen(a, b, id, make(QUERN_F32, {2, 1, 16}, QUERN_VALUE_OUTPUT));
  pack_constants(plugin, good);
  const std::string key = good.values[1].layout, name = key.substr(0, key.rfind('/'));
  EXPECT_EQ(plugin.run(good).status, QUERN_OK);
  // 64 rows of one matrix have as many bytes; sizes whose product leaves 63 bits have none.
  for (const std::string& bad : {name + "/64x512", name + "/3x16x512", name + "/4x17x512", name + "/4x16x544", name + "/0x16x512",
                                 name + "/4x4x4x512", name + "/x16x512", name + "/4xx512", name + "/1099511627776x1099511627776x512"}) {
    GraphSpec graph = good;
    graph.values[1].layout = bad;
    const Outcome outcome = plugin.run(graph);
    EXPECT_EQ(outcome.status, QUERN_UNSUPPORTED) << bad;
    EXPECT_NE(outcome.text.find(bad), std::string::npos) << outcome.text;
  }
}

/// What a feed-forward network of experts is made of.
struct NetworkOptions {
  quern_dtype gate = QUERN_Q4_K, up = QUERN_Q4_K, down = QUERN_Q6_K;
  std::int64_t kind = 0;  // of glu
  bool same_ids = true;   // gate and up choose alike
  double limit = HUGE_VAL;
};

constexpr std::int64_t hidden = 256, ffn = 272, used = 3, experts = 6, most_tokens = 70;

/// gate, up, glu, down and moe_combine over the ids; the last value is y.
GraphSpec network(const NetworkOptions& o) {
  GraphSpec graph;
  graph.symbols = {{{"tokens", 6}, 0, most_tokens, 1, QUERN_NONE, 0}};
  const auto add = [&](Tensor t) {
    t.symbols.assign(t.dims.size(), 0);
    if (t.kind != QUERN_VALUE_CONSTANT) t.symbols[0] = 1;
    return graph.add(std::move(t));
  };
  const std::uint32_t x = add(random_tensor(QUERN_F32, {most_tokens, 1, hidden}, 1)), id = add(uneven_ids(most_tokens, used, experts));
  const std::uint32_t other = o.same_ids ? id : add(ints({most_tokens, used}, std::vector<std::int32_t>(most_tokens * used, 4)));
  const std::uint32_t weight = add(random_tensor(QUERN_F32, {most_tokens, used}, 2));
  const std::uint32_t gate = add(constant(o.gate, {experts, ffn, hidden}, 3)), up = add(constant(o.up, {experts, ffn, hidden}, 4));
  const std::uint32_t down = add(constant(o.down, {experts, hidden, ffn / 256 * 256}, 5));
  const auto inner = [&](std::vector<std::int64_t> dims) { return add(make(QUERN_F32, std::move(dims), QUERN_VALUE_INTERNAL)); };
  const std::uint32_t g = inner({most_tokens, used, ffn}), u = inner({most_tokens, used, ffn}), h = inner({most_tokens, used, ffn});
  node(graph, QUERN_OP_MATMUL_ID, {x, gate, id}, g);
  node(graph, QUERN_OP_MATMUL_ID, {x, up, other}, u);
  node(graph, QUERN_OP_GLU, {g, u}, h, {{QUERN_KEY_KIND, static_cast<double>(o.kind)}, {QUERN_KEY_LIMIT, o.limit}});
  Tensor part = make(QUERN_F32, {most_tokens, used, ffn / 256 * 256}, QUERN_VALUE_INTERNAL);  // the first columns of h
  part.alias_of = h;
  part.strides = {used * ffn * 4, ffn * 4, 4};
  const std::uint32_t seen = add(part), d = inner({most_tokens, used, hidden}),
                      y = add(make(QUERN_F32, {most_tokens, hidden}, QUERN_VALUE_OUTPUT));
  node(graph, QUERN_OP_MATMUL_ID, {seen, down, id}, d);
  node(graph, QUERN_OP_MOE_COMBINE, {d, weight}, y);
  return graph;
}

struct Ran {
  std::vector<std::uint8_t> bytes;
  std::vector<std::string> kernels;
};
Ran run_network(Plugin& plugin, GraphSpec& graph, bool fuse, std::int64_t tokens) {
  plugin.fuse = fuse;
  const Tensor& y = graph.values.back();
  std::memset(y.raw().data(), 0, y.raw().size());
  Prepared prepared(plugin, graph);
  EXPECT_EQ(prepared.outcome.status, QUERN_OK) << prepared.outcome.text;
  Ran ran;
  if (prepared.outcome.status != QUERN_OK) return ran;
  const Outcome outcome = prepared.submit({{0, 0, tokens}});
  EXPECT_EQ(outcome.status, QUERN_OK) << outcome.text;
  quern_plan_info info{};
  info.header = {sizeof(info), QUERN_TYPE_PLAN_INFO, nullptr};
  EXPECT_EQ(plugin.api().plan_info(prepared.plan, &info, nullptr), QUERN_OK);
  for (std::uint64_t i = 0; i < info.kernels.count; ++i) {
    const auto& kernel = static_cast<const quern_kernel_info*>(info.kernels.data)[i];
    ran.kernels.emplace_back(kernel.name.data, kernel.name.size);
  }
  ran.bytes = bytes_of(y);
  return ran;
}

TEST(Experts, AFusedGateHasTheBitsOfItsNodesForEveryBatchAndThreadCount) {
  for (const std::string& family : packing_families())
    for (const NetworkOptions& options :
         {NetworkOptions{}, NetworkOptions{QUERN_Q4_0, QUERN_Q8_0, QUERN_Q4_0}, NetworkOptions{QUERN_F16, QUERN_F16, QUERN_BF16},
          NetworkOptions{QUERN_Q4_K, QUERN_Q4_K, QUERN_Q4_K, 1}, NetworkOptions{QUERN_Q4_0, QUERN_Q4_0, QUERN_Q4_0, 2, true, 0.5}}) {
      GraphSpec graph = network(options);
      Plugin one(1, {{"force_kernel", family}}), three(3, {{"force_kernel", family}});
      pack_constants(one, graph);
      for (const std::int64_t tokens : {0, 1, 2, 9, 70}) {
        const Ran apart = run_network(one, graph, false, tokens);
        EXPECT_EQ(apart.kernels.size(), graph.nodes.size());
        for (Plugin* plugin : {&one, &three}) {
          const Ran fused = run_network(*plugin, graph, true, tokens);
          ASSERT_EQ(fused.kernels.size(), graph.nodes.size() - 2) << family;
          EXPECT_EQ(fused.kernels[0], "matmul_id_glu.packed." + (options.gate == QUERN_F16 ? family_of_plain_weights(family) : family));
          ASSERT_EQ(fused.bytes, apart.bytes) << family << ", " << tokens << " tokens";
        }
      }
    }
}

TEST(Experts, AGateThatChoosesOtherExpertsThanItsFactorStaysApart) {
  for (const std::string& family : packing_families()) {
    NetworkOptions options;
    options.same_ids = false;
    GraphSpec graph = network(options);
    Plugin plugin(2, {{"force_kernel", family}});
    pack_constants(plugin, graph);
    EXPECT_EQ(run_network(plugin, graph, true, 5).kernels.size(), graph.nodes.size());
  }
}

TEST(Experts, AGateThatOthersReadIsStillMade) {
  for (const std::string& family : packing_families()) {
    GraphSpec graph = network({});
    const std::uint32_t gate = graph.nodes[0].outputs[0];
    graph.values[gate].kind = QUERN_VALUE_OUTPUT;
    Plugin plugin(2, {{"force_kernel", family}});
    pack_constants(plugin, graph);
    const auto run = [&](bool fuse) {
      const auto raw = graph.values[gate].raw();
      std::memset(raw.data(), 0, raw.size());
      const Ran ran = run_network(plugin, graph, fuse, 5);
      return std::pair(ran.bytes, bytes_of(graph.values[gate]));
    };
    EXPECT_EQ(run(true), run(false));
  }
}

}  // namespace
}  // namespace quern::cpu_test
