// Orders and masks of logits, random numbers, accepted drafts and published tokens, against plain reimplementations.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace quern::cpu_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float nan = std::nanf("");

std::vector<std::int32_t> numbers(const Tensor& t) { return {t.integers().begin(), t.integers().begin() + t.elements()}; }

TEST(Sort, IsStableInBothDirectionsWithNaNAsTheLeast) {
  Plugin plugin(2);
  const Tensor x = of({1, 2, 4}, {2, nan, 2, 3, -infinity, 0, -0.0f, nan}), value = make(QUERN_F32, {1, 2, 4}),
               index = make(QUERN_I32, {1, 2, 4});
  ASSERT_EQ(run_node(plugin, QUERN_OP_SORT, {x}, {value, index}).status, QUERN_OK);
  EXPECT_EQ(numbers(index), (std::vector<std::int32_t>{3, 0, 2, 1, 1, 2, 0, 3}));
  EXPECT_TRUE(std::isnan(value.f32()[3]));
  ASSERT_EQ(run_node(plugin, QUERN_OP_SORT, {x}, {value, index}, {{QUERN_KEY_DESCENDING, 0}}).status, QUERN_OK);
  EXPECT_EQ(numbers(index), (std::vector<std::int32_t>{1, 0, 2, 3, 0, 3, 1, 2}));
  EXPECT_EQ(value.f32()[3], 3.0f);
}

TEST(TopK, IsTheStartOfTheSortedRow) {
  Plugin plugin(2);
  const Tensor x = random_tensor(QUERN_F32, {3, 5000}, 1);
  for (std::size_t i = 0; i < 15000; ++i) x.f32()[i] = std::round(x.f32()[i] * 50) / 50;  // many ties
  const Tensor sorted = make(QUERN_F32, {3, 5000}), order = make(QUERN_I32, {3, 5000}), value = make(QUERN_F32, {3, 40}),
               index = make(QUERN_I32, {3, 40});
  ASSERT_EQ(run_node(plugin, QUERN_OP_SORT, {x}, {sorted, order}).status, QUERN_OK);
  ASSERT_EQ(run_node(plugin, QUERN_OP_TOP_K, {x}, {value, index}, {{QUERN_KEY_K, 40}}).status, QUERN_OK);
  for (std::size_t row = 0; row < 3; ++row) {
    std::vector<std::int32_t> ids(5000);
    std::iota(ids.begin(), ids.end(), 0);
    std::ranges::stable_sort(ids, [&](std::int32_t a, std::int32_t b) {
      return x.f32()[row * 5000 + static_cast<std::size_t>(a)] > x.f32()[row * 5000 + static_cast<std::size_t>(b)];
    });
    EXPECT_EQ(std::memcmp(ids.data(), order.integers().data() + row * 5000, 5000 * 4), 0);
    EXPECT_EQ(std::memcmp(order.integers().data() + row * 5000, index.integers().data() + row * 40, 40 * 4), 0);
    EXPECT_EQ(std::memcmp(sorted.f32().data() + row * 5000, value.f32().data() + row * 40, 40 * 4), 0);
  }
  const Outcome refused =
      run_node(plugin, QUERN_OP_TOP_K, {of({1, 3}, {1, 2, 3})}, {make(QUERN_F32, {1, 4}), make(QUERN_I32, {1, 4})}, {{QUERN_KEY_K, 4}});
  EXPECT_EQ(refused.status, QUERN_INVALID_ARGUMENT);
  EXPECT_NE(refused.text.find("k is 4"), std::string::npos) << refused.text;
}

/// Which logits of each row are kept; the kept ones are as they were.
std::vector<std::string> kept(Plugin& plugin, std::uint32_t op, const Tensor& x, const Tensor& setting) {
  const Tensor y = make(QUERN_F32, x.dims);
  const Outcome outcome = run_node(plugin, op, {x, setting}, {y});
  EXPECT_EQ(outcome.status, QUERN_OK) << outcome.text;
  std::vector<std::string> rows;
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    if (i % x.dims[1] == 0) rows.emplace_back();
    const auto at = static_cast<std::size_t>(i);
    const bool stays = std::memcmp(&x.f32()[at], &y.f32()[at], 4) == 0;
    EXPECT_TRUE(stays || y.f32()[at] == -infinity);
    rows.back() += stays ? 'k' : '.';
  }
  return rows;
}

TEST(LogitMasks, TopKKeepsTheBestWithTiesToTheLowestIndex) {
  Plugin plugin(2);
  const Tensor x = of({5, 4}, {1, 2, 2, 2, 1, 2, 2, 2, nan, 1, 0, -1, 1, 2, 3, nan, 4, 3, 2, 1});
  EXPECT_EQ(kept(plugin, QUERN_OP_TOP_K_MASK, x, ints({5}, {2, 0, 2, -3, 9})),
            (std::vector<std::string>{".kk.", "kkkk", ".kk.", "kkkk", "kkkk"}));
}

// A long row is ranked in two goes: k on either side of what the first one ranks, ties across its bound, and NaN.
TEST(LogitMasks, TopKOfALongRowKeepsTheBestHoweverManyAreAsked) {
  constexpr std::int64_t n = 20000;
  Plugin plugin(1);
  const Tensor x = random_tensor(QUERN_F32, {1, n}, 31);
  for (std::int64_t i = 0; i < n; ++i) x.f32()[i] = i % 1000 == 7 ? nan : std::round(x.f32()[i] * 50) / 50;
  std::vector<std::int32_t> ids(n);
  std::iota(ids.begin(), ids.end(), 0);
  std::erase_if(ids, [&](std::int32_t id) { return std::isnan(x.f32()[id]); });
  std::ranges::stable_sort(ids, [&](std::int32_t a, std::int32_t b) { return x.f32()[a] > x.f32()[b]; });
  for (const std::int32_t k : {1, 63, 64, 65, 100, 3000, 19000}) {
    std::string expected(n, '.');
    for (std::int32_t i = 0; i < k; ++i) expected[ids[i]] = 'k';
    EXPECT_EQ(kept(plugin, QUERN_OP_TOP_K_MASK, x, ints({1}, {k})), std::vector<std::string>{expected}) << "k " << k;
  }
}

TEST(LogitMasks, TopPKeepsTheFewestWhoseProbabilitiesReachP) {
  Plugin plugin(2);
  const std::vector<float> row = {std::log(0.05f), std::log(0.4f), std::log(0.3f), std::log(0.25f)};
  std::vector<float> all;
  for (int i = 0; i < 6; ++i) all.insert(all.end(), row.begin(), row.end());
  EXPECT_EQ(kept(plugin, QUERN_OP_TOP_P_MASK, of({6, 4}, all), of({6}, {0.69f, 0.71f, 0, 1, 0.96f, -1})),
            (std::vector<std::string>{".kk.", ".kkk", ".k..", "kkkk", "kkkk", ".k.."}));
}

TEST(LogitMasks, MinPKeepsWhatIsNotFarBelowTheBest) {
  Plugin plugin(2);
  const std::vector<float> row = {std::log(0.05f), std::log(0.4f), std::log(0.3f), std::log(0.25f)};
  std::vector<float> all;
  for (int i = 0; i < 4; ++i) all.insert(all.end(), row.begin(), row.end());
  EXPECT_EQ(kept(plugin, QUERN_OP_MIN_P_MASK, of({4, 4}, all), of({4}, {0.7f, 0.1f, 0, 1})),
            (std::vector<std::string>{".kk.", "kkkk", "kkkk", ".k.."}));
  EXPECT_EQ(kept(plugin, QUERN_OP_MIN_P_MASK, of({2, 3}, {infinity, 1, infinity, -infinity, -infinity, -infinity}), of({2}, {0.5f, 0.5f})),
            (std::vector<std::string>{"k.k", "kkk"}));
}

TEST(LogitMasks, KeepWhatANaiveFilterKeepsOfAVocabulary) {
  Plugin plugin(2);
  constexpr std::size_t n = 30000;
  const Tensor x = random_tensor(QUERN_F32, {1, n}, 2, 3.0);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return x.f32()[a] > x.f32()[b]; });
  const auto probability = [&](std::size_t i) {
    return std::exp(static_cast<double>(x.f32()[i]) - static_cast<double>(x.f32()[order[0]]));
  };
  double total = 0, sum = 0;
  for (std::size_t i = 0; i < n; ++i) total += probability(i);
  std::string nucleus(n, '.'), top(n, '.'), minimum(n, '.');
  for (std::size_t i = 0; i < n && sum < static_cast<double>(0.9f) * total; ++i) sum += probability(order[i]), nucleus[order[i]] = 'k';
  for (std::size_t i = 0; i < 1000; ++i) top[order[i]] = 'k';
  for (std::size_t i = 0; i < n; ++i)
    if (probability(i) >= static_cast<double>(0.01f)) minimum[i] = 'k';
  EXPECT_EQ(kept(plugin, QUERN_OP_TOP_P_MASK, x, of({1}, {0.9f}))[0], nucleus);
  EXPECT_EQ(kept(plugin, QUERN_OP_TOP_K_MASK, x, ints({1}, {1000}))[0], top);
  EXPECT_EQ(kept(plugin, QUERN_OP_MIN_P_MASK, x, of({1}, {0.01f}))[0], minimum);
}

Tensor seed_of(std::uint32_t a, std::uint32_t b) {
  Tensor t = make(QUERN_U32, {2});
  t.integers()[0] = static_cast<std::int32_t>(a);
  t.integers()[1] = static_cast<std::int32_t>(b);
  return t;
}

TEST(RandomUniform, GivesPhiloxsPublishedWordsAndCountsOn) {
  Plugin plugin(2);
  const Tensor y = make(QUERN_F32, {3, 333});
  ASSERT_EQ(run_node(plugin, QUERN_OP_RANDOM_UNIFORM, {seed_of(0, 0), ints({1}, {0})}, {y}).status, QUERN_OK);
  const std::uint32_t known[] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};  // counter 0, key 0
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(y.f32()[i], static_cast<float>((known[i] + 0.5) / 4294967296.0));
  // A part of the tensor is that part of the numbers, whatever the shape.
  const Tensor z = make(QUERN_F32, {999});
  ASSERT_EQ(run_node(plugin, QUERN_OP_RANDOM_UNIFORM, {seed_of(0, 0), ints({1}, {0})}, {z}).status, QUERN_OK);
  EXPECT_EQ(std::memcmp(y.f32().data(), z.f32().data(), 999 * 4), 0);
  double sum = 0;
  for (std::size_t i = 0; i < 999; ++i) sum += static_cast<double>(y.f32()[i]);
  EXPECT_NEAR(sum / 999, 0.5, 6 / std::sqrt(12.0 * 999));  // six standard deviations of the mean
  for (const auto& [seed, step, salt] : {std::tuple{1u, 0, 0.0}, std::tuple{0u, 1, 0.0}, std::tuple{0u, 0, 4294967295.0}}) {
    ASSERT_EQ(run_node(plugin, QUERN_OP_RANDOM_UNIFORM, {seed_of(seed, 0), ints({1}, {step})}, {z}, {{QUERN_KEY_SALT, salt}}).status,
              QUERN_OK);
    EXPECT_NE(z.f32()[0], y.f32()[0]);
  }
  const Outcome refused = run_node(plugin, QUERN_OP_RANDOM_UNIFORM, {seed_of(0, 0), ints({1}, {0})}, {z}, {{QUERN_KEY_SALT, 4294967296.0}});
  EXPECT_NE(refused.text.find("it is at most 4294967295"), std::string::npos) << refused.text;
}

TEST(SpecAccept, TakesTheAgreedPrefixAndTheTargetsNextToken) {
  Plugin plugin(2);
  const Tensor draft = ints({4, 2}, {5, 6, 5, 6, 5, 6, 5, 6}), target = ints({4, 3}, {5, 6, 7, 5, 9, 7, 8, 6, 7, 5, 6, 7});
  const Tensor token = make(QUERN_I32, {4, 3}), count = make(QUERN_I32, {4});
  ASSERT_EQ(run_node(plugin, QUERN_OP_SPEC_ACCEPT, {draft, target, ints({4}, {1, 1, 1, 0})}, {token, count}).status, QUERN_OK);
  EXPECT_EQ(numbers(token), (std::vector<std::int32_t>{5, 6, 7, 5, 9, -1, 8, -1, -1, -1, -1, -1}));
  EXPECT_EQ(numbers(count), (std::vector<std::int32_t>{3, 2, 1, 0}));
}

struct Published {
  Tensor ring = make(QUERN_I32, {3, 2}, QUERN_VALUE_STATE), sequence = make(QUERN_I32, {1}, QUERN_VALUE_STATE);

  Outcome publish(Plugin& plugin, std::int32_t a, std::int32_t b, const Tensor& predicate = absent()) {
    GraphSpec graph;
    NodeSpec node{QUERN_OP_TOKEN_PUBLISH, {graph.add(ints({2}, {a, b})), graph.add(sequence)}, {graph.add(ring)}};
    if (predicate.dtype != QUERN_DTYPE_NONE) node.predicate = graph.add(predicate);
    graph.nodes.push_back(node);
    return plugin.run(graph);
  }
};

TEST(TokenPublish, FillsTheRingRoundAndCountsUpAcrossTheSign) {
  Plugin plugin;
  Published p;
  std::fill(p.ring.integers().begin(), p.ring.integers().end(), 0);
  p.sequence.integers()[0] = 2;
  for (std::int32_t i = 0; i < 2; ++i) ASSERT_EQ(p.publish(plugin, 10 + i, 20 + i).status, QUERN_OK);
  EXPECT_EQ(numbers(p.ring), (std::vector<std::int32_t>{11, 21, 0, 0, 10, 20}));
  EXPECT_EQ(p.sequence.integers()[0], 4);
  p.sequence.integers()[0] = std::numeric_limits<std::int32_t>::max();  // 2^31 - 1 is 1 modulo 3
  for (std::int32_t i = 0; i < 2; ++i) ASSERT_EQ(p.publish(plugin, 30 + i, 40 + i).status, QUERN_OK);
  EXPECT_EQ(numbers(p.ring), (std::vector<std::int32_t>{11, 21, 30, 40, 31, 41}));
  EXPECT_EQ(static_cast<std::uint32_t>(p.sequence.integers()[0]), 0x80000001u);
}

TEST(TokenPublish, DeadRowsWriteNothingAndNoLiveRowPublishesNothing) {
  Plugin plugin;
  Published p;
  std::fill(p.ring.integers().begin(), p.ring.integers().end(), 0);
  p.sequence.integers()[0] = 0;
  for (const Tensor& none : {ints({1}, {0}), ints({2}, {0, 0})}) {
    ASSERT_EQ(p.publish(plugin, 1, 2, none).status, QUERN_OK);
    EXPECT_EQ(p.sequence.integers()[0], 0);
  }
  ASSERT_EQ(p.publish(plugin, 1, 2, ints({2}, {0, 1})).status, QUERN_OK);
  EXPECT_EQ(numbers(p.ring), (std::vector<std::int32_t>{0, 2, 0, 0, 0, 0}));
  EXPECT_EQ(p.sequence.integers()[0], 1);
}

TEST(TokenPublish, RefusesASequenceNumberThatIsNotState) {
  Plugin plugin;
  Published p;
  p.sequence.kind = QUERN_VALUE_CONSTANT;
  const Outcome outcome = p.publish(plugin, 1, 2);
  EXPECT_EQ(outcome.status, QUERN_UNSUPPORTED);
  EXPECT_NE(outcome.text.find("counted up in place"), std::string::npos) << outcome.text;
}

}  // namespace
}  // namespace quern::cpu_test
