// The SDK for plugins with device memory: fields of blocks, weights in planes, counted heaps, numbers on the host.
#include "quern/quern_device_plugin.hpp"

#include "test_host.hpp"

#include <gtest/gtest.h>

namespace {

namespace sdk = quern::sdk;
using namespace quern_test;

TEST(SdkBlocks, FieldsCoverEachBlockOnceAndLieWhereKernelsReadThem) {
  struct Row {
    quern_dtype dtype;
    sdk::BlockFields fields;
  };
  // What backends/cuda/src/kernels/blocks.cuh and backends/vulkan/src/shaders/planes.glsl read.
  const Row rows[] = {
      {QUERN_Q4_0, {18, 32, {0, 2}, {2, 16}}},
      {QUERN_Q4_1, {20, 32, {0, 4}, {4, 16}}},
      {QUERN_Q5_0, {22, 32, {0, 6, 2}, {2, 16, 4}}},
      {QUERN_Q5_1, {24, 32, {0, 8, 4}, {4, 16, 4}}},
      {QUERN_Q8_0, {34, 32, {0, 2}, {2, 32}}},
      {QUERN_Q4_K, {144, 256, {0, 16}, {16, 128}}},
      {QUERN_Q5_K, {176, 256, {0, 48, 16}, {16, 128, 32}}},
      {QUERN_Q6_K, {210, 256, {208, 0, 128, 192}, {2, 128, 64, 16}}},
  };
  for (const Row& row : rows) {
    const sdk::BlockFields& fields = sdk::block_fields(row.dtype);
    EXPECT_EQ(fields.block_bytes, row.fields.block_bytes);
    EXPECT_EQ(fields.elements, row.fields.elements);
    std::uint32_t covered = 0;
    for (int f = 0; f < sdk::BlockFields::count; ++f) {
      EXPECT_EQ(fields.offset[f], row.fields.offset[f]) << row.dtype << " field " << f;
      EXPECT_EQ(fields.bytes[f], row.fields.bytes[f]) << row.dtype << " field " << f;
      covered += fields.bytes[f];
    }
    EXPECT_EQ(covered, fields.block_bytes) << row.dtype;
    EXPECT_EQ(sdk::gains_by_planes(row.dtype), fields.block_bytes % 16 != 0);
  }
  EXPECT_EQ(sdk::block_fields(QUERN_F32).block_bytes, 0u);
  EXPECT_FALSE(sdk::gains_by_planes(QUERN_F32));
}

TEST(SdkPlanes, AKeyNamesItsPluginFormatAndShapeAndNoOtherTextIsOne) {
  const sdk::PlaneLayout layout{QUERN_Q6_K, 3, 512};
  EXPECT_EQ(layout.key("cuda"), "cuda.planes.q6_k.3x512");
  EXPECT_EQ(layout.plane(1), 256u) << "6 scales of 2 bytes, then the next multiple of 256";
  EXPECT_EQ(layout.bytes(), 256u + 768 + 512 + 256) << "6 blocks of 2, 128, 64 and 16 bytes";
  const sdk::PlaneLayout read = sdk::parse_plane_layout("cuda", layout.key("cuda"));
  EXPECT_EQ(read.dtype, QUERN_Q6_K);
  EXPECT_EQ(read.rows, 3);
  EXPECT_EQ(read.k, 512);
  for (const char* wrong : {"", "cuda.planes.", "vulkan.planes.q6_k.3x512", "cuda.planes.q6_k.3x", "cuda.planes.q6_k.0x512",
                            "cuda.planes.q6_k.-3x512", "cuda.planes.q6_k.3x512 ", "cuda.planes.q6_k.3x500", "cuda.planes.q4_k.3x512",
                            "cuda.planes.q7_k.3x512", "cuda.planes.q6_k.99999999999x512"}) {
    EXPECT_EQ(sdk::parse_plane_layout("cuda", wrong).dtype, QUERN_DTYPE_NONE) << wrong;
  }
}

class ProductsPack : public sdk::PlanePacking {
 public:
  const char* plugin() const override { return "test"; }
  sdk::WeightRead reads(const sdk::ResolvedNode& node, std::size_t input) const override {
    if ((node.op == QUERN_OP_MATMUL || node.op == QUERN_OP_MATMUL_ID) && input == 1) return sdk::WeightRead::packed;
    return node.op == QUERN_OP_GET_ROWS && input == 0 ? sdk::WeightRead::either : sdk::WeightRead::canonical;
  }
};

class ExpertsInPlanes : public ProductsPack {
 public:
  std::uint32_t most_rank() const override { return 3; }
};

TEST(SdkPlanes, MatricesOfExpertsAreRowsOneBehindTheOtherWhereAPluginTakesThem) {
  sdk::Tensor experts;
  experts.dtype = QUERN_Q6_K;
  experts.rank = 3;
  experts.dims[0] = 5, experts.dims[1] = 3, experts.dims[2] = 512;
  EXPECT_TRUE(ProductsPack().form(experts, 0).key.empty());
  EXPECT_EQ(ExpertsInPlanes().form(experts, 0).key, "test.planes.q6_k.15x512");
  quern_value value{};
  value.dtype = QUERN_Q6_K;
  value.rank = 3;
  value.dims[0] = 5, value.dims[1] = 3, value.dims[2] = 512;
  EXPECT_EQ(ProductsPack().layout_bytes("test.planes.q6_k.15x512", value), 0u);
  EXPECT_EQ(ExpertsInPlanes().layout_bytes("test.planes.q6_k.15x512", value), ExpertsInPlanes().form(experts, 0).bytes);
  EXPECT_EQ(ExpertsInPlanes().layout_bytes("test.planes.q6_k.14x512", value), 0u);
  value.dims[0] = std::int64_t{1} << 62;
  EXPECT_EQ(ExpertsInPlanes().layout_bytes("test.planes.q6_k.15x512", value), 0u);
  experts.dims[0] = std::int64_t{1} << 31;
  EXPECT_TRUE(ExpertsInPlanes().form(experts, 0).key.empty()) << "a key counts fewer rows";
}

TEST(SdkPlanes, AProductOfManyMatricesReadsThemAsTheyLieAndOneOfExpertsInPlanes) {
  sdk::Tensor weights;
  weights.dtype = QUERN_Q5_0;
  weights.rank = 3;
  sdk::ResolvedNode node;
  node.op = QUERN_OP_MATMUL;
  EXPECT_EQ(ExpertsInPlanes().how_read(node, 1, weights), sdk::WeightRead::canonical);
  node.op = QUERN_OP_MATMUL_ID;
  EXPECT_EQ(ExpertsInPlanes().how_read(node, 1, weights), sdk::WeightRead::packed);
  weights.rank = 2;
  node.op = QUERN_OP_MATMUL;
  EXPECT_EQ(ExpertsInPlanes().how_read(node, 1, weights), sdk::WeightRead::packed);
}

class EveryOp : public sdk::Offers {
 public:
  const sdk::OpOffer* find(std::uint32_t) const override {
    static const sdk::OpOffer offer{0, "any.test", [](const sdk::Call&) { return std::string(); }};
    return &offer;
  }
};

struct WeightGraph : GraphBuilder {
  std::uint32_t x, y;
  WeightGraph() : x(value(QUERN_VALUE_INPUT, {2, 256})), y(value(QUERN_VALUE_OUTPUT, {2, 8})) {}
  std::uint32_t weight(const char* name, quern_dtype dtype = QUERN_Q8_0) {
    const std::uint32_t w = value(QUERN_VALUE_CONSTANT, {8, 256}, dtype);
    values[w].name = sdk::text_of(name);
    if (const quern_format* format = sdk::find_format(dtype)) {
      values[w].uses |= QUERN_VALUE_USES_FORMAT;
      values[w].format_hash = format->hash;
    }
    return w;
  }
};

std::vector<std::string> planned(std::initializer_list<WeightGraph*> graphs) {
  const EveryOp offers;
  std::vector<std::unique_ptr<sdk::ResolvedGraph>> read;
  for (WeightGraph* graph : graphs) read.push_back(std::make_unique<sdk::ResolvedGraph>(graph->get(), offers));
  const auto list = sdk::plan_weights(read, ProductsPack());
  std::vector<std::string> items;
  for (const quern_weight_item& item : list->items) items.push_back(sdk::concat(sdk::view(item.layout_key), " from ", item.sources.count));
  return items;
}

TEST(SdkWeights, PacksWhatProductsReadAndNothingThatIsReadInAnotherWay) {
  const std::string one = "test.planes.q8_0.8x256 from 1";
  {
    WeightGraph g;
    const auto w = g.weight("w"), k = g.weight("k", QUERN_Q4_K), f = g.weight("f", QUERN_F32);
    for (const std::uint32_t weight : {w, k, f}) g.node(QUERN_OP_MATMUL, {g.x, weight}, {g.y});
    EXPECT_EQ(planned({&g}), std::vector<std::string>{one});
  }
  {
    WeightGraph g;
    const auto w = g.weight("w");
    g.node(QUERN_OP_MATMUL, {g.x, w}, {g.y});
    g.node(QUERN_OP_ADD, {g.y, w}, {g.y});
    EXPECT_TRUE(planned({&g}).empty()) << "another op reads its blocks";
  }
  {
    WeightGraph g;
    const auto w = g.weight("w"), indices = g.value(QUERN_VALUE_INPUT, {2}, QUERN_I32), rows = g.value(QUERN_VALUE_OUTPUT, {2, 256});
    g.node(QUERN_OP_GET_ROWS, {w, indices}, {rows});
    g.node(QUERN_OP_ADD, {g.y, g.y}, {g.y});
    EXPECT_TRUE(planned({&g}).empty()) << "nothing is faster so";
    g.node(QUERN_OP_MATMUL, {g.x, w}, {g.y});
    EXPECT_EQ(planned({&g}), std::vector<std::string>{one});
  }
}

TEST(SdkWeights, ConstantsOfOneNameInSeveralGraphsAreOneItemOrNone) {
  WeightGraph a, b;
  a.node(QUERN_OP_MATMUL, {a.x, a.weight("w")}, {a.y});
  b.node(QUERN_OP_MATMUL, {b.x, b.weight("w")}, {b.y});
  EXPECT_EQ(planned({&a, &b}), std::vector<std::string>{"test.planes.q8_0.8x256 from 2"});
  b.node(QUERN_OP_ADD, {b.y, 2}, {b.y});
  EXPECT_TRUE(planned({&a, &b}).empty()) << "one of them reads its blocks";
}

/// Packs experts too, where every product allows int8; and says of each node which of two kernels runs it.
class ExpertsPack : public sdk::WeightPacking {
 public:
  bool considers(const sdk::ResolvedNode& node) const override { return !node.malformed; }
  sdk::WeightRead how_read(const sdk::ResolvedNode& node, std::size_t input, const sdk::Tensor& tensor) const override {
    const bool product = (node.op == QUERN_OP_MATMUL && tensor.rank == 2) || (node.op == QUERN_OP_MATMUL_ID && tensor.rank == 3);
    return product && input == 1 ? sdk::WeightRead::packed : sdk::WeightRead::canonical;
  }
  sdk::PackedForm form(const sdk::Tensor& t, std::uint32_t conversions) const override {
    if ((conversions & QUERN_CONVERT_INT8) == 0) return {};
    return {sdk::concat("test/", t.rank == 3 ? t.dims[0] : 0, "x", t.dims[t.rank - 2], "x", t.dims[t.rank - 1]), 7, 64, 0};
  }
};
class Forced : public EveryOp {
 public:
  sdk::Choice choose(const sdk::ResolvedGraph&, const sdk::ResolvedNode& node, const sdk::Node& source) const override {
    sdk::Choice choice;
    if ((source.fields.uses & QUERN_NODE_USES_PRECISION) != 0) choice.kernel = "rounding.test";
    else choice.refusal = "it rounds", choice.code = QUERN_INVALID_ARGUMENT;
    choice.row = &node;
    return choice;
  }
};

void add_product(WeightGraph& g, std::uint32_t op, std::vector<std::uint32_t> inputs, std::uint32_t conversions, std::uint32_t y) {
  g.node(op, inputs, {y});
  g.nodes.back().uses |= QUERN_NODE_USES_PRECISION;
  g.nodes.back().accumulate = QUERN_F32;
  g.nodes.back().conversions = conversions;
}

std::vector<std::string> forms(WeightGraph& g, const sdk::Offers& offers) {
  std::vector<std::unique_ptr<sdk::ResolvedGraph>> read;
  read.push_back(std::make_unique<sdk::ResolvedGraph>(g.get(), offers));
  std::vector<std::string> keys;
  const auto list = sdk::plan_weights(read, ExpertsPack());
  for (const quern_weight_item& item : list->items) keys.emplace_back(sdk::view(item.layout_key));
  return keys;
}

TEST(SdkWeights, APluginPacksExpertsAndWhatAllProductsAllow) {
  WeightGraph g;
  const auto w = g.weight("w"), both = g.weight("both"), experts = g.value(QUERN_VALUE_CONSTANT, {4, 8, 256}),
             ids = g.value(QUERN_VALUE_INPUT, {2, 1}, QUERN_I32), x = g.value(QUERN_VALUE_INPUT, {2, 1, 256}),
             y = g.value(QUERN_VALUE_OUTPUT, {2, 1, 8});
  add_product(g, QUERN_OP_MATMUL, {g.x, w}, QUERN_CONVERT_INT8, g.y);
  add_product(g, QUERN_OP_MATMUL, {g.x, both}, QUERN_CONVERT_INT8, g.y);
  add_product(g, QUERN_OP_MATMUL, {g.x, both}, QUERN_CONVERT_BF16, g.y);
  add_product(g, QUERN_OP_MATMUL_ID, {x, experts, ids}, QUERN_CONVERT_INT8 | QUERN_CONVERT_BF16, y);
  const std::vector<std::string> expected = {"test/0x8x256", "test/4x8x256"};
  EXPECT_EQ(forms(g, EveryOp()), expected);
}

TEST(SdkOffers, APluginWithSeveralKernelsAnOpChoosesAndRefusesWithItsCode) {
  WeightGraph g;
  const auto w = g.weight("w", QUERN_F32);
  add_product(g, QUERN_OP_MATMUL, {g.x, w}, QUERN_CONVERT_INT8, g.y);
  g.node(QUERN_OP_MATMUL, {g.x, w}, {g.y});
  const Forced offers;
  const sdk::ResolvedGraph graph(g.get(), offers);
  EXPECT_STREQ(graph.nodes[0].choice.kernel, "rounding.test");
  EXPECT_TRUE(graph.nodes[0].refusal.empty());
  EXPECT_EQ(graph.nodes[1].refusal, "it rounds");
  EXPECT_FALSE(graph.nodes[1].malformed);
  std::vector<std::uint32_t> refused;
  try {
    graph.require_runnable(refused);
    FAIL() << "node 1 does not run";
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.code, QUERN_INVALID_ARGUMENT);
    EXPECT_EQ(failure.node, 1u);
  }
  EXPECT_EQ(refused, std::vector<std::uint32_t>{1});
}

TEST(SdkScratch, TheLastFreeRangeGrowsAndAnInstanceHasItsOwnBytes) {
  sdk::FreeRanges ranges;
  const std::uint64_t a = ranges.take(64), b = ranges.take(64);
  ranges.give(b, 64);
  EXPECT_EQ(ranges.take(192), b) << "what lies free at the end is a part of it";
  EXPECT_EQ(ranges.end(), 256u);
  ranges.give(a, 64);
  EXPECT_EQ(ranges.take(128), 256u) << "no free range reaches the end";
  GraphBuilder g;
  const auto x = g.value(QUERN_VALUE_INPUT, {100}), t = g.value(QUERN_VALUE_INTERNAL, {100}), y = g.value(QUERN_VALUE_OUTPUT, {100});
  g.node(QUERN_OP_NEG, {x}, {t});
  g.node(QUERN_OP_NEG, {t}, {y});
  const EveryOp offers;
  const sdk::ResolvedGraph graph(g.get(), offers);
  const std::vector<sdk::StepMemory> steps = {{{x, t}, {}, 0}, {{t, y}, {}, 0}};
  EXPECT_EQ(sdk::lay_out_scratch(graph, steps, {}, 64).bytes, 448u) << "400 bytes at multiples of 64";
  EXPECT_EQ(sdk::lay_out_scratch(graph, steps, {}, 64, [](std::uint32_t) { return 100; }).bytes, 128u);
}

TEST(SdkBindings, SpansOfAPluginOnTheHostsMemoryHaveNoBuffer) {
  GraphBuilder g;
  const auto x = g.value(QUERN_VALUE_INPUT, {16}), y = g.value(QUERN_VALUE_OUTPUT, {16});
  g.node(QUERN_OP_NEG, {x}, {y});
  const EveryOp offers;
  const sdk::ResolvedGraph graph(g.get(), offers);
  const sdk::InstanceBounds bounds(graph);
  alignas(64) static std::byte memory[2][64];
  quern_span spans[2] = {{nullptr, memory[0], 0, 64}, {nullptr, memory[1], 0, 64}};
  const auto bind = [&] {
    quern_binding bindings[2] = {sdk::made<quern_binding>(), sdk::made<quern_binding>()};
    for (std::uint32_t v = 0; v < 2; ++v) {
      bindings[v].value = v == 0 ? x : y;
      bindings[v].spans = {&spans[v], 1, sizeof(quern_span)};
    }
    return bounds.check_bindings<sdk::SpansIn::host_memory>(
        {bindings, 2, sizeof(quern_binding)}, {}, 0, 64, 1,
        [](const quern_span& span, std::uint64_t) { return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(span.host)); });
  };
  EXPECT_EQ(bind().of[y], reinterpret_cast<std::uintptr_t>(memory[1]));
  const auto refused = [&](const quern_span& span, const char* words) {
    const quern_span good = std::exchange(spans[1], span);
    try {
      bind();
      ADD_FAILURE() << words;
    } catch (const sdk::Failure& failure) {
      EXPECT_NE(failure.text.find(words), std::string::npos) << failure.text;
      EXPECT_EQ(failure.slot, y);
    }
    spans[1] = good;
  };
  refused({reinterpret_cast<quern_buffer*>(memory[1]), nullptr, 0, 64}, "takes host memory");
  refused({nullptr, nullptr, 0, 64}, "bound to no host memory");
  refused({nullptr, memory[1], 0, 63}, "has 63");
  refused({nullptr, memory[1] + 4, 0, 64}, "multiple of 64");
}

TEST(SdkHeap, CountsWhatIsTakenAndRefusesWithTheNumbers) {
  sdk::CountedHeap heap(100);
  {
    const sdk::CountedHeap::Share share = heap.take(60);
    EXPECT_EQ(heap.info(0).used, 60u);
    try {
      heap.take(41);
      FAIL() << "more than there is";
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code, QUERN_OUT_OF_MEMORY);
      EXPECT_EQ(failure.requested, 41u);
      EXPECT_EQ(failure.available, 40u);
    }
    heap.limit(50);
    EXPECT_EQ(heap.info(0).budget, 50u);
    EXPECT_THROW(heap.take(1), sdk::Failure);
  }
  EXPECT_EQ(heap.info(0).used, 0u);
  EXPECT_THROW(heap.take(UINT64_MAX), sdk::Failure);
}

TEST(SdkHostKernels, EveryF16ComesBackAndF32RoundsToTheNearest) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const bool nan = (h & 0x7c00u) == 0x7c00u && (h & 0x3ffu) != 0;
    ASSERT_TRUE(nan || sdk::to_f16(sdk::from_f16(static_cast<std::uint16_t>(h))) == h) << h;
  }
  EXPECT_EQ(sdk::to_f16(1.0f + 0x1p-11f), 0x3c00) << "a tie goes to the even one";
  EXPECT_EQ(sdk::to_f16(1.0f + 0x3p-11f), 0x3c02);
  EXPECT_EQ(sdk::to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(sdk::to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(sdk::to_f16(0x1p-25f), 0) << "half of the smallest, a tie";
}

TEST(SdkInOrder, AForcedKernelIsANameOrOneOfItsWords) {
  EXPECT_TRUE(sdk::is_forced("add.f32.rows", "add.f32.rows"));
  EXPECT_TRUE(sdk::is_forced("rows", "add.f32.rows"));
  EXPECT_TRUE(sdk::is_forced("add", "add.f32.rows"));
  EXPECT_FALSE(sdk::is_forced("row", "add.f32.rows"));
  EXPECT_FALSE(sdk::is_forced("f32.rows", "add.f32.rows"));
  EXPECT_FALSE(sdk::is_forced("avx2", "add.f32.rows"));
}

}  // namespace
