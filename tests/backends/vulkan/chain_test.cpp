// Stages of a chain: how many threads and workgroups each has, what it passes on, and which kernels have one item.
#include "chain.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace quern::vulkan {
namespace {

constexpr int plain = 0, norm = 1;  // as in shaders/chain.comp

CardFacts card_of_132() {
  CardFacts card;
  card.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  card.multiprocessors = card.persistent_groups = 132;
  card.group_limit = 1024;
  card.shared_limit = 48 << 10;
  card.subgroup = card.subgroup_least = 32;
  return card;
}

struct Shape {
  quern_dtype format;
  uint hidden, kv, feed_forward, heads, kv_heads;
};
constexpr Shape tinyllama{QUERN_Q4_K, 2048, 256, 5632, 32, 4}, smollm2{QUERN_Q8_0, 576, 192, 1536, 9, 3},
    llama_7b{QUERN_F16, 4096, 4096, 11008, 32, 32};

/// A layer, and the products of the next one's row: queries to values, attention, output, gate and up, down, queries to values.
std::vector<Chain::Launch> launches_of(const Shape& shape, const CardFacts& card) {
  Chain chain(card);
  std::uint64_t end = 1 << 20;
  const auto memory = [&](std::uint64_t bytes) { return std::exchange(end, end + (bytes + 255) / 256 * 256); };
  const auto product = [&](std::uint64_t x, uint k, uint n, int mode, std::uint64_t residual, bool paired) {
    OneRowProduct p;
    p.format = static_cast<int>(shape.format);
    p.mode = mode;
    p.k = k;
    p.paired = paired;
    p.params.x = x;
    p.params.n = n;
    p.params.c = residual;
    p.params.other = mode == norm ? 512 : 0;
    p.params.y = memory(std::uint64_t{n} * 4);
    EXPECT_TRUE(chain.add(p)) << n << " x " << k;
    return p.params.y;
  };
  const auto queries_to_values = [&](std::uint64_t x) {
    AttentionParams a{};
    a.q = product(x, shape.hidden, shape.hidden, norm, 0, false);
    a.new_k = product(x, shape.hidden, shape.kv, norm, 0, false);
    a.new_v = product(x, shape.hidden, shape.kv, norm, 0, false);
    return a;
  };
  const std::uint64_t row = memory(shape.hidden * 4);
  AttentionParams a = queries_to_values(row);
  a.heads = shape.heads;
  a.kv_heads = shape.kv_heads;
  a.d = a.dv = shape.hidden / shape.heads;
  a.k_position = a.v_position = std::int64_t{a.d} * 2;
  a.y_head = std::int64_t{a.dv} * 4;
  a.y_dtype = static_cast<int>(QUERN_F32);
  a.page = 16;
  a.y = memory(shape.hidden * 4);
  EXPECT_TRUE(chain.add(a, static_cast<int>(QUERN_F16), static_cast<int>(QUERN_F16)));
  const std::uint64_t output = product(a.y, shape.hidden, shape.hidden, plain, row, false);
  const std::uint64_t gated = product(output, shape.hidden, shape.feed_forward, norm, 0, true);
  queries_to_values(product(gated, shape.feed_forward, shape.hidden, plain, output, false));
  std::vector<Chain::Launch> launches;
  for (const ChainStage& stage : chain.build(0, 0).stages) launches.push_back(chain.launch(stage));
  return launches;
}

struct Expected {
  std::uint32_t groups, threads;
  std::int32_t blocks_in, blocks_out, rows, once;
};
void expect(const std::vector<Chain::Launch>& launches, const std::vector<Expected>& expected) {
  ASSERT_EQ(launches.size(), expected.size());
  for (std::size_t s = 0; s < launches.size(); ++s) {
    EXPECT_EQ(launches[s].groups, expected[s].groups) << "stage " << s;
    EXPECT_EQ(launches[s].threads, expected[s].threads) << "stage " << s;
    EXPECT_EQ(launches[s].constants.paired, s == 3 ? 1 : 0) << "stage " << s;
    EXPECT_EQ(launches[s].constants.blocks_in, expected[s].blocks_in) << "stage " << s;
    EXPECT_EQ(launches[s].constants.blocks_out, expected[s].blocks_out) << "stage " << s;
    EXPECT_EQ(launches[s].constants.used_rows, expected[s].rows) << "stage " << s;
    EXPECT_EQ(launches[s].constants.once, expected[s].once) << "stage " << s;
  }
}

// 1,280 tiles for 132 workgroups are 10 at most, for 12 subgroups, and a row of 2,048 is one item. The output has 128 blocks of 16 rows, a subgroup each.
// 352 blocks of gate and up are 3 at most, 48 tiles for 24 subgroups. Down has 128 blocks of 16 rows too, with 3
// items a row.
TEST(Chain, LayersOfTinyLlama) {
  expect(launches_of(tinyllama, card_of_132()), {{132, 384, 0, 0, 2, 1},
                                                 {128, 256, 0, 4, 2, 0},
                                                 {128, 512, 1, 1, 1, 1},
                                                 {132, 768, 1, 3, 2, 0},
                                                 {128, 512, 1, 1, 1, 0},
                                                 {132, 384, 1, 0, 2, 1}});
}

// Every product has one item a subgroup; gate and up would have 96 blocks, fewer than workgroups, and go as words.
TEST(Chain, LayersOfSmolLM2) {
  expect(launches_of(smollm2, card_of_132()), {{132, 256, 0, 0, 2, 1},
                                               {126, 256, 0, 4, 2, 0},
                                               {36, 256, 1, 1, 2, 1},
                                               {132, 384, 1, 0, 2, 1},
                                               {36, 256, 0, 1, 2, 1},
                                               {132, 256, 1, 0, 2, 1}});
}

TEST(Chain, LayersOfF16PassFloats) {
  expect(launches_of(llama_7b, card_of_132()), {{132, 768, 0, 0, 2, 0},
                                                {128, 256, 0, 0, 2, 0},
                                                {132, 512, 0, 0, 2, 0},
                                                {132, 768, 0, 0, 2, 0},
                                                {132, 512, 0, 0, 2, 0},
                                                {132, 768, 0, 0, 2, 0}});
}

// Attention joins what subgroups found by a lane each.
TEST(Chain, AttentionHasNoMoreSubgroupsThanLanes) {
  CardFacts card = card_of_132();
  card.subgroup = card.subgroup_least = 8;
  EXPECT_EQ(launches_of(smollm2, card)[1].threads, 64u);
}

// A software device waits for no other workgroup; its threads are a card's, so that CI runs the kernels that cards run.
TEST(Chain, SoftwareHasOneWorkgroupOfACardsThreads) {
  CardFacts card = card_of_132();
  card.persistent_groups = 1;
  card.subgroup = card.subgroup_least = 8;
  const std::vector<Chain::Launch> of_card = launches_of(smollm2, card);
  card.type = VK_PHYSICAL_DEVICE_TYPE_CPU;
  const std::vector<Chain::Launch> launches = launches_of(smollm2, card);
  ASSERT_EQ(launches.size(), of_card.size());
  for (std::size_t i = 0; i < launches.size(); ++i) {
    EXPECT_EQ(launches[i].groups, launches[i].constants.kind == 2 ? 9u : 1u);
    EXPECT_EQ(launches[i].threads, of_card[i].threads);
  }
}

// 48 KiB of shared memory: a row of 11,008 as f32 leaves 5 KiB for the rest, one of 12,288 nothing.
TEST(Chain, RowsOfF16FitSharedMemory) {
  CardFacts card = card_of_132();
  card.shared_limit = 48 << 10;
  EXPECT_TRUE(Chain(card).takes_half_row(11008));
  EXPECT_FALSE(Chain(card).takes_half_row(12288));
  EXPECT_FALSE(Chain(card).takes_half_row((std::uint64_t{1} << 32) + 64));
}

}  // namespace
}  // namespace quern::vulkan
