// Weight sets through the ABI: what is planned, packing, and matmul and get_rows on packed constants.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace quern::cpu_test {
namespace {

constexpr quern_dtype quantised[] = {QUERN_Q4_0, QUERN_Q4_1, QUERN_Q5_0, QUERN_Q5_1, QUERN_Q8_0, QUERN_Q4_K, QUERN_Q5_K, QUERN_Q6_K};

Tensor constant(quern_dtype dtype, std::vector<std::int64_t> dims, std::uint32_t seed) {
  Tensor t = random_tensor(dtype, std::move(dims), seed);
  t.kind = QUERN_VALUE_CONSTANT;
  return t;
}

/// y = a b^T, which may round a to int8, or not.
GraphSpec product(const Tensor& a, const Tensor& b, const Tensor& y, std::uint32_t conversions = QUERN_CONVERT_INT8) {
  GraphSpec graph;
  const std::uint32_t ia = graph.add(a), ib = graph.add(b), iy = graph.add(y);
  NodeSpec node{QUERN_OP_MATMUL, {ia, ib}, {iy}};
  node.conversions = conversions;
  graph.nodes.push_back(node);
  return graph;
}

/// The items of one graph, released at the end.
class Items {
 public:
  Items(Plugin& plugin, GraphSpec& graph) : plugin_(plugin) {
    const quern_graph* built = graph.build();
    const quern_array list{&built, 1, sizeof(built)};
    status = plugin.api().weights_plan(plugin.device(), &list, 0, &array, nullptr);
  }
  ~Items() {
    if (array.count != 0) { EXPECT_EQ(plugin_.api().weights_release(plugin_.device(), &array, nullptr), QUERN_OK); }
  }
  const quern_weight_item& operator[](std::size_t i) const { return static_cast<const quern_weight_item*>(array.data)[i]; }
  std::string key(std::size_t i) const { return {(*this)[i].layout_key.data, (*this)[i].layout_key.size}; }
  std::uint32_t value(std::size_t i) const { return static_cast<const quern_weight_source*>((*this)[i].sources.data)->value; }

  quern_status status;
  quern_array array{};

 private:
  Plugin& plugin_;
};

quern_status pack(Plugin& plugin, const quern_weight_item& item, const Tensor& from, Memory& to) {
  const quern_span source{nullptr, from.memory->data.get(), 0, from.memory->size}, target{nullptr, to.data.get(), 0, to.size};
  const quern_array sources{&source, 1, sizeof(source)}, targets{&target, 1, sizeof(target)};
  return plugin.api().weights_pack(plugin.device(), nullptr, &item, &sources, &targets, nullptr, nullptr);
}

/// `canonical` under the layout of item 0 of a plan of `graph`.
Tensor packed(Plugin& plugin, GraphSpec& graph, const Tensor& canonical) {
  const Items items(plugin, graph);
  EXPECT_EQ(items.array.count, 1u);
  if (items.array.count != 1) return canonical;
  Tensor t = canonical;
  t.layout = items.key(0);
  t.memory = std::make_shared<Memory>(items[0].bytes);
  EXPECT_EQ(pack(plugin, items[0], canonical, *t.memory), QUERN_OK);
  return t;
}

TEST(Weights, PackedProductsAreCloseToExactOnesForEveryFormat) {
  constexpr std::int64_t n = 37, k = 512;
  for (const std::string& family : packing_families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    for (const quern_format& format : quern_formats)
      for (const std::int64_t m : {1, 5, 300}) {
        const quern_dtype dtype = format.id;
        const Tensor a = random_tensor(QUERN_F32, {m, k}, 1), b = constant(dtype, {n, k}, 2),
                     y = make(QUERN_F32, {m, n}, QUERN_VALUE_OUTPUT);
        GraphSpec canonical = product(a, b, y);
        GraphSpec graph = product(a, packed(plugin, canonical, b), y);
        std::string kernel;
        const Outcome outcome = plugin.run(graph, {}, &kernel);
        ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
        EXPECT_NE(kernel.find(".packed."), std::string::npos) << kernel;
        const std::vector<double> x = meaning(a), w = meaning(b), got = meaning(y);
        for (std::int64_t t = 0; t < m; ++t) {
          double largest = 0.0;
          for (std::int64_t l = 0; l < k; ++l) largest = std::max(largest, std::fabs(x[t * k + l]));
          for (std::int64_t r = 0; r < n; ++r) {
            double expected = 0.0, weight_sum = 0.0;
            for (std::int64_t l = 0; l < k; ++l) {
              expected += x[t * k + l] * w[r * k + l];
              weight_sum += std::fabs(w[r * k + l]);
            }
            // Each activation moves by at most half a step of largest / 127; the f32 sums add far less.
            ASSERT_NEAR(got[t * n + r], expected, weight_sum * largest / 127 * 0.5 * 1.01 + 1e-6) << kernel << " m " << m;
          }
        }
      }
  }
}

/// What plan_info tells of the only node.
struct Told {
  std::string kernel, reason;
  std::uint64_t numerics_key = 0;
};
Told told(Plugin& plugin, GraphSpec& graph) {
  quern_plan* plan = nullptr;
  const Outcome compiled = plugin.compile(graph, &plan);
  EXPECT_EQ(compiled.status, QUERN_OK) << compiled.text;
  if (plan == nullptr) return {};
  quern_plan_info info{};
  info.header = {sizeof(info), QUERN_TYPE_PLAN_INFO, nullptr};
  EXPECT_EQ(plugin.api().plan_info(plan, &info, nullptr), QUERN_OK);
  const auto& kernel = *static_cast<const quern_kernel_info*>(info.kernels.data);
  Told result{{kernel.name.data, kernel.name.size}, {kernel.reason.data, kernel.reason.size}, info.numerics_key};
  plugin.api().plan_destroy(plan, nullptr);
  return result;
}

TEST(Weights, ProductsByAmxHaveTheBitsThePanelsAndThePlanKeyOfAvx512) {
  if (families().back() != "amx") GTEST_SKIP() << "this processor or its system has no amx";
  constexpr std::int64_t n = 333, k = 768;
  Plugin amx(3, {{"force_kernel", "cpu:amx"}}), avx512(2, {{"force_kernel", "cpu:avx512"}});
  for (const quern_dtype dtype : quantised)
    for (const std::int64_t m : {1, 16, 17, 50, 300}) {
      const Tensor a = random_tensor(QUERN_F32, {m, k}, 1), b = constant(dtype, {n, k}, 2);
      const Tensor tiles = make(QUERN_F32, {m, n}, QUERN_VALUE_OUTPUT), vectors = make(QUERN_F32, {m, n}, QUERN_VALUE_OUTPUT);
      GraphSpec canonical = product(a, b, tiles);
      const Tensor panels = packed(amx, canonical, b);
      EXPECT_EQ(panels.layout, packed(avx512, canonical, b).layout);
      GraphSpec by_tiles = product(a, panels, tiles), by_vectors = product(a, panels, vectors);
      ASSERT_EQ(amx.run(by_tiles).status, QUERN_OK);
      ASSERT_EQ(avx512.run(by_vectors).status, QUERN_OK);
      EXPECT_EQ(std::memcmp(tiles.raw().data(), vectors.raw().data(), tiles.raw().size()), 0)
          << "format " << dtype << ", " << m << " tokens";
      const Told fast = told(amx, by_tiles), slow = told(avx512, by_vectors);
      EXPECT_TRUE(fast.kernel.ends_with(".packed.amx")) << fast.kernel;
      EXPECT_EQ(fast.reason, "");
      EXPECT_TRUE(slow.kernel.ends_with(".packed.avx512")) << slow.kernel;
      EXPECT_EQ(slow.reason, "amx: switched off by force_kernel=avx512");
      EXPECT_EQ(fast.numerics_key, slow.numerics_key);
    }
}

/// Emulated tiles whose products are wrong while there is one of these.
struct WrongTiles {
  WrongTiles() { setenv("QUERN_TEST_WRONG_TILES", "1", 1); }
  ~WrongTiles() { unsetenv("QUERN_TEST_WRONG_TILES"); }
};
bool tiles_are_emulated() {
  const WrongTiles wrong;
  return families().back() == "amx" && !Plugin(1).has("amx");
}

TEST(Weights, AmxIsUsedUndemandedToo) {
  if (families().back() != "amx") GTEST_SKIP() << "this processor or its system has no amx";
  Plugin plugin(1), slower(1, {{"force_kernel", "cpu:avx512"}});
  EXPECT_TRUE(plugin.has("amx"));
  EXPECT_FALSE(slower.has("amx"));
  const Tensor a = random_tensor(QUERN_F32, {20, 512}, 1), b = constant(QUERN_Q4_0, {16, 512}, 2),
               y = make(QUERN_F32, {20, 16}, QUERN_VALUE_OUTPUT);
  GraphSpec canonical = product(a, b, y), graph = product(a, packed(plugin, canonical, b), y);
  EXPECT_EQ(told(plugin, graph).kernel, "matmul.q4_0.packed.amx");
  EXPECT_EQ(told(plugin, graph).reason, "");
}

/// Tiles that became wrong after their comparison tell which products they multiply.
TEST(Weights, UndemandedTilesBeginAt64TokensOfAPart) {
  if (!tiles_are_emulated()) GTEST_SKIP() << "the tiles of this plugin are none, or right";
  constexpr std::int64_t n = 48, k = 512;
  Plugin plugin(2), demanded(2, {{"force_kernel", "cpu:amx"}}), avx512(2, {{"force_kernel", "cpu:avx512"}});
  const WrongTiles wrong;
  for (const std::int64_t m : {17, 63, 64, 257}) {
    const Tensor a = random_tensor(QUERN_F32, {m, k}, 1), b = constant(QUERN_Q4_0, {n, k}, 2);
    const auto bits_of = [&](Plugin& by) {
      const Tensor y = make(QUERN_F32, {m, n}, QUERN_VALUE_OUTPUT);
      GraphSpec canonical = product(a, b, y), graph = product(a, packed(by, canonical, b), y);
      EXPECT_EQ(by.run(graph).status, QUERN_OK);
      return std::vector<std::uint8_t>(y.raw().begin(), y.raw().end());
    };
    const auto right = bits_of(avx512);
    EXPECT_EQ(bits_of(plugin) != right, m >= 64) << m << " tokens";
    EXPECT_NE(bits_of(demanded), right) << m << " tokens";
  }
}

TEST(Weights, UndemandedTilesWithOtherBitsAreLeftWithAReason) {
  if (!tiles_are_emulated()) GTEST_SKIP() << "the tiles of this plugin are none, or right";
  const WrongTiles wrong;
  Plugin plugin(1), avx512(1, {{"force_kernel", "avx512"}});
  const auto usable = [](const Plugin& probed) {
    quern_probe_report report{};
    report.header = {sizeof(report), QUERN_TYPE_PROBE_REPORT, nullptr};
    EXPECT_EQ(probed.api().probe(probed.handle(), &report, nullptr), QUERN_OK);
    return report.usable != 0;
  };
  EXPECT_TRUE(usable(plugin));
  EXPECT_FALSE(usable(Plugin(1, {{"force_kernel", "amx"}})));
  const Tensor a = random_tensor(QUERN_F32, {200, 512}, 1), b = constant(QUERN_Q4_0, {16, 512}, 2);
  const Tensor y = make(QUERN_F32, {200, 16}, QUERN_VALUE_OUTPUT), right = make(QUERN_F32, {200, 16}, QUERN_VALUE_OUTPUT);
  GraphSpec canonical = product(a, b, y), graph = product(a, packed(plugin, canonical, b), y),
            other = product(a, packed(avx512, canonical, b), right);
  const Told told_of = told(plugin, graph);
  EXPECT_EQ(told_of.kernel, "matmul.q4_0.packed.avx512");
  EXPECT_TRUE(told_of.reason.starts_with("amx: amx gives ") && told_of.reason.find(" that avx512 gives ") != std::string::npos)
      << told_of.reason;
  ASSERT_EQ(plugin.run(graph).status, QUERN_OK);
  ASSERT_EQ(avx512.run(other).status, QUERN_OK);
  EXPECT_EQ(std::memcmp(y.raw().data(), right.raw().data(), y.raw().size()), 0);
}

TEST(Weights, WhereAmxIsRefusedTheReasonIsTold) {
  if (packing_families().empty()) GTEST_SKIP() << "this processor has no packed layouts";
  setenv("QUERN_TEST_NO_AMX", "the operating system refuses amx tiles: a test", 1);  // heard by the plugin that emulates them
  {
    Plugin plugin(1);
    const Plugin forced(1, {{"force_kernel", "amx"}});
    if (forced.created().status != QUERN_OK) {
      const Tensor a = random_tensor(QUERN_F32, {20, 512}, 1), b = constant(QUERN_Q4_0, {16, 512}, 2),
                   y = make(QUERN_F32, {20, 16}, QUERN_VALUE_OUTPUT);
      GraphSpec canonical = product(a, b, y), graph = product(a, packed(plugin, canonical, b), y);
      const std::string reason = told(plugin, graph).reason;
      EXPECT_TRUE(reason.starts_with("amx: this processor ") || reason.starts_with("amx: the operating system ")) << reason;
      EXPECT_EQ(forced.created().status, QUERN_ARCH_NOT_BUILT);
      const std::string& text = forced.created().text;
      EXPECT_TRUE(text.starts_with("force_kernel is 'amx' but this processor ") ||
                  text.starts_with("force_kernel is 'amx' but the operating system "))
          << text;
    }
  }
  unsetenv("QUERN_TEST_NO_AMX");
}

TEST(Weights, AWeightGetsALayoutThatItsProductsAllow) {
  for (const std::string& family : packing_families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    const auto key_of = [&](quern_dtype dtype, std::uint32_t conversions) {
      GraphSpec graph = product(random_tensor(QUERN_F32, {3, 512}, 1), constant(dtype, {37, 512}, 2),
                                make(QUERN_F32, {3, 37}, QUERN_VALUE_OUTPUT), conversions);
      const Items items(plugin, graph);
      return items.array.count == 0 ? std::string() : items.key(0);
    };
    EXPECT_EQ(key_of(QUERN_BF16, QUERN_CONVERT_NONE), "");
    EXPECT_EQ(key_of(QUERN_Q8_0, QUERN_CONVERT_NONE), "");
    EXPECT_EQ(key_of(QUERN_Q8_0, QUERN_CONVERT_BF16 | QUERN_CONVERT_F16), "") << "its kernels round to int8";
    EXPECT_NE(key_of(QUERN_Q8_0, QUERN_CONVERT_INT8), "");
    const bool pairs = plugin.has("bf16") && plugin.has("vnni") && __builtin_cpu_is("amd") && family != "avx2";  // elsewhere they are slow
    EXPECT_EQ(key_of(QUERN_BF16, QUERN_CONVERT_BF16).starts_with("bf16.16x2."), pairs);
    EXPECT_FALSE(key_of(QUERN_BF16, QUERN_CONVERT_INT8).starts_with("bf16.16x2."));
    EXPECT_TRUE(key_of(QUERN_BF16, QUERN_CONVERT_INT8).starts_with("bf16."));
  }
}

TEST(Weights, ATableSharedWithGetRowsDecodesToTheBitsOfItsBlocks) {
  constexpr std::int64_t rows = 45, k = 512;
  for (const std::string& family : packing_families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    for (const quern_dtype dtype : quantised) {
      const Tensor table = constant(dtype, {rows, k}, 3), index = ints({4}, {44, 0, 17, 8}), a = random_tensor(QUERN_F32, {1, k}, 4);
      const auto build = [&](const Tensor& weights, const Tensor& out, const Tensor& logits) {
        GraphSpec graph = product(a, weights, logits);
        const std::uint32_t i = graph.add(index), y = graph.add(out);
        graph.nodes.push_back({QUERN_OP_GET_ROWS, {1, i}, {y}});
        return graph;
      };
      const Tensor expected = make(QUERN_F32, {4, k}, QUERN_VALUE_OUTPUT), got = make(QUERN_F32, {4, k}, QUERN_VALUE_OUTPUT);
      const Tensor logits = make(QUERN_F32, {1, rows}, QUERN_VALUE_OUTPUT);
      GraphSpec canonical = build(table, expected, logits);
      ASSERT_EQ(plugin.run(canonical).status, QUERN_OK);
      GraphSpec graph = build(packed(plugin, canonical, table), got, logits);
      const Outcome outcome = plugin.run(graph);
      ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
      EXPECT_EQ(std::memcmp(expected.raw().data(), got.raw().data(), got.raw().size()), 0) << family << " format " << dtype;
    }
  }
}

TEST(Weights, WhatCannotBePackedStaysCanonical) {
  Plugin plugin(1);
  const Tensor a = random_tensor(QUERN_F32, {1, 512}, 1), b = constant(QUERN_Q4_0, {16, 512}, 2),
               y = make(QUERN_F32, {1, 16}, QUERN_VALUE_OUTPUT);
  {
    GraphSpec exact = product(a, b, y, QUERN_CONVERT_NONE);
    EXPECT_EQ(Items(plugin, exact).array.count, 0u);
  }
  {
    GraphSpec input = product(a, random_tensor(QUERN_Q4_0, {16, 512}, 2), y);  // no constant
    EXPECT_EQ(Items(plugin, input).array.count, 0u);
  }
  {
    GraphSpec twice = product(a, b, y);  // one of two products is exact
    const std::uint32_t other = twice.add(make(QUERN_F32, {1, 16}, QUERN_VALUE_OUTPUT));
    twice.nodes.push_back({QUERN_OP_MATMUL, {0, 1}, {other}});
    EXPECT_EQ(Items(plugin, twice).array.count, 0u);
  }
  for (const char* force : {"portable", "matmul.q4_0.portable"}) {
    Plugin forced(1, {{"force_kernel", force}});
    GraphSpec graph = product(a, b, y);
    EXPECT_EQ(Items(forced, graph).array.count, 0u) << force;
    EXPECT_EQ(forced.run(graph).status, QUERN_OK);
  }
}

TEST(Weights, ForeignLayoutsAreAnsweredNo) {
  if (packing_families().empty()) GTEST_SKIP() << "this processor has no packed layouts";
  Plugin plugin(1);
  const Tensor a = random_tensor(QUERN_F32, {1, 512}, 1), b = constant(QUERN_Q4_0, {16, 512}, 2),
               y = make(QUERN_F32, {1, 16}, QUERN_VALUE_OUTPUT);
  GraphSpec canonical = product(a, b, y);
  const Tensor good = packed(plugin, canonical, b);
  const std::string name = good.layout.substr(0, good.layout.rfind('/'));
  for (const std::string& key :
       {std::string("unknown/16x512"), name, name + "/", name + "/16x", name + "/16x512x", name + "/17x512", name + "/16x544",
        name + "/-16x512", name + "/16x99999999999999999999", std::string("q4_k.16x4.v0/16x512")}) {
    Tensor bad = good;
    bad.layout = key;
    GraphSpec graph = product(a, bad, y);
    const Outcome outcome = plugin.run(graph);
    EXPECT_EQ(outcome.status, QUERN_UNSUPPORTED) << key;
    EXPECT_NE(outcome.text.find(key), std::string::npos) << outcome.text;
  }
  GraphSpec exact = product(a, good, y, QUERN_CONVERT_NONE);
  const Outcome outcome = plugin.run(exact);
  EXPECT_EQ(outcome.status, QUERN_UNSUPPORTED);
  EXPECT_NE(outcome.text.find("int8"), std::string::npos) << outcome.text;
}

TEST(Weights, APackedOperandThatIsNotTheWeightsIsRefused) {
  if (packing_families().empty()) GTEST_SKIP() << "this processor has no packed layouts";
  Plugin plugin(1);
  const Tensor a = random_tensor(QUERN_F32, {16, 512}, 1), b = constant(QUERN_F32, {16, 512}, 2),
               y = make(QUERN_F32, {16, 16}, QUERN_VALUE_OUTPUT);
  GraphSpec canonical = product(a, b, y);
  const Tensor panels = packed(plugin, canonical, b);
  GraphSpec graph = product(panels, panels, y);
  const Outcome outcome = plugin.run(graph);
  EXPECT_EQ(outcome.status, QUERN_UNSUPPORTED);
  EXPECT_NE(outcome.text.find("input 0"), std::string::npos) << outcome.text;
}

TEST(Weights, SpansThatDoNotFitAndListsReleasedTwiceAreRefused) {
  if (packing_families().empty()) GTEST_SKIP() << "this processor has no packed layouts";
  Plugin plugin(1);
  const Tensor a = random_tensor(QUERN_F32, {1, 512}, 1), b = constant(QUERN_Q4_0, {16, 512}, 2),
               y = make(QUERN_F32, {1, 16}, QUERN_VALUE_OUTPUT);
  GraphSpec graph = product(a, b, y);
  quern_array copy{};
  {
    const Items items(plugin, graph);
    ASSERT_EQ(items.array.count, 1u);
    copy = items.array;
    Memory small(items[0].bytes - 1), right(items[0].bytes);
    EXPECT_EQ(pack(plugin, items[0], b, small), QUERN_INVALID_ARGUMENT);
    Tensor part = b;
    part.memory = std::make_shared<Memory>(b.memory->size - 1);
    EXPECT_EQ(pack(plugin, items[0], part, right), QUERN_INVALID_ARGUMENT);
    EXPECT_EQ(pack(plugin, items[0], b, right), QUERN_OK);
  }
  EXPECT_EQ(plugin.api().weights_release(plugin.device(), &copy, nullptr), QUERN_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace quern::cpu_test
