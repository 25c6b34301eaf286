// Sampling: penalties, biases and draws, against counts worked out by hand and a plain reimplementation.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace quern::cpu_test {
namespace {

Tensor words(std::vector<std::int64_t> dims, const std::vector<std::uint32_t>& values) {
  Tensor t = make(QUERN_U32, std::move(dims));
  for (std::size_t i = 0; i < values.size(); ++i) t.integers()[i] = static_cast<std::int32_t>(values[i]);
  return t;
}

struct Drawn {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
};

Drawn draw(Plugin& plugin, const Tensor& x, const std::vector<float>& params, std::uint32_t seed, std::int32_t first_step) {
  const std::int64_t s = x.dims[0];
  std::vector<float> all;
  std::vector<std::uint32_t> seeds;
  std::vector<std::int32_t> steps;
  for (std::int64_t i = 0; i < s; ++i) {
    all.insert(all.end(), params.begin(), params.end());
    seeds.insert(seeds.end(), {seed, 7u});
    steps.push_back(first_step + static_cast<std::int32_t>(i));
  }
  const Tensor token = make(QUERN_I32, {s}), logprob = make(QUERN_F32, {s});
  const Outcome outcome = run_node(plugin, QUERN_OP_SAMPLE, {x, of({s, 8}, all), words({s, 2}, seeds), ints({s}, steps)}, {token, logprob});
  EXPECT_EQ(outcome.status, QUERN_OK) << outcome.text;
  return {{token.integers().begin(), token.integers().begin() + s}, {logprob.f32().begin(), logprob.f32().begin() + s}};
}

/// One logits row repeated.
Tensor rows_of(const std::vector<float>& row, std::int64_t count) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < count; ++i) all.insert(all.end(), row.begin(), row.end());
  return of({count, static_cast<std::int64_t>(row.size())}, all);
}

TEST(Sample, TemperatureZeroTakesTheBestWithItsLogProbability) {
  Plugin plugin(2);
  const Drawn drawn = draw(plugin, rows_of({0.0f, std::log(2.0f), std::log(2.0f), 0.0f}, 2), {0, 0, 1, 0, 1, 0, 0, 0}, 1, 0);
  EXPECT_EQ(drawn.tokens, (std::vector<std::int32_t>{1, 1}));
  EXPECT_NEAR(drawn.logprobs[0], std::log(1.0 / 3.0), 1e-6);
}

TEST(Sample, DrawsFollowTheProbabilities) {
  Plugin plugin(2);
  constexpr int draws = 20000;
  const std::vector<float> row = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  const Drawn drawn = draw(plugin, rows_of(row, draws), {1, 0, 1, 0, 1, 0, 0, 0}, 42, 0);
  int counts[3] = {};
  for (const std::int32_t t : drawn.tokens) ++counts[t];
  // Six standard deviations of a binomial of 20,000.
  EXPECT_NEAR(counts[0], 10000, 6 * std::sqrt(draws * 0.25));
  EXPECT_NEAR(counts[1], 6000, 6 * std::sqrt(draws * 0.21));
  EXPECT_NEAR(counts[2], 4000, 6 * std::sqrt(draws * 0.16));
}

TEST(Sample, FiltersKeepWhatTheyShould) {
  Plugin plugin;
  const std::vector<float> row = {std::log(0.05f), std::log(0.4f), std::log(0.3f), std::log(0.25f)};
  const auto seen = [&](const std::vector<float>& params) {
    const Drawn drawn = draw(plugin, rows_of(row, 2000), params, 3, 100);
    std::vector<bool> kept(4);
    for (const std::int32_t t : drawn.tokens) kept[static_cast<std::size_t>(t)] = true;
    return kept;
  };
  EXPECT_EQ(seen({1, 2, 1, 0, 1, 0, 0, 0}), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(seen({1, 0, 0.69f, 0, 1, 0, 0, 0}), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(seen({1, 0, 1, 0.7f, 1, 0, 0, 0}), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(seen({1, 3, 0.75f, 0, 1, 0, 0, 0}), (std::vector<bool>{false, true, true, true}));  // 0.4 + 0.3 of 0.95 is less than 0.75
  EXPECT_EQ(seen({4, 0, 1, 0, 1, 0, 0, 0}), (std::vector<bool>{true, true, true, true}));
}

TEST(Sample, IsTheSameForEverySeedAndStepWhateverTheBatchAndThreads) {
  Plugin one(1), two(2, {{"force_kernel", "portable"}});
  const Tensor x = random_tensor(QUERN_F32, {8, 5000}, 9, 2.0);
  const Drawn batch = draw(two, x, {0.8f, 50, 0.95f, 0.01f, 1, 0, 0, 0}, 5, 10);
  for (std::int64_t i = 0; i < 8; ++i) {
    const Tensor row = of({1, 5000}, {x.f32().begin() + i * 5000, x.f32().begin() + (i + 1) * 5000});
    EXPECT_EQ(draw(one, row, {0.8f, 50, 0.95f, 0.01f, 1, 0, 0, 0}, 5, 10 + static_cast<std::int32_t>(i)).tokens[0],
              batch.tokens[static_cast<std::size_t>(i)]);
  }
}

TEST(Sample, PhiloxGivesItsPublishedWords) {
  // Counter and key all zero: the first word of the known answer is 6627e8d5, so u = 0.39904. With three equal logits the draw is token 1.
  Plugin plugin;
  const Tensor token = make(QUERN_I32, {1}), logprob = make(QUERN_F32, {1});
  const auto at = [&](int n) {  // token floor(u * n) of n equal logits
    const Tensor x = of({1, n}, std::vector<float>(static_cast<std::size_t>(n), 0.0f));
    EXPECT_EQ(run_node(plugin, QUERN_OP_SAMPLE, {x, of({1, 8}, {1, 0, 1, 0, 1, 0, 0, 0}), words({1, 2}, {0, 0}), ints({1}, {0})},
                       {token, logprob})
                  .status,
              QUERN_OK);
    return token.integers()[0];
  };
  const double u = (0x6627e8d5u + 0.5) / 4294967296.0;
  for (const int n : {2, 3, 100, 4999}) EXPECT_EQ(at(n), static_cast<int>(u * n)) << n;
}

TEST(Penalize, CountsTokensOfTheWindowOnly) {
  Plugin plugin;
  const Tensor x = of({1, 5}, {2, -2, 3, 1, 1}), y = make(QUERN_F32, {1, 5});
  // window 4 of six: tokens 1 1 0 2 after 3 3; repeat 2, presence 0.5, frequency 0.25.
  ASSERT_EQ(run_node(plugin, QUERN_OP_PENALIZE,
                     {x, ints({1, 8}, {3, 3, 1, 1, 0, 2, 4, 4}), ints({1}, {6}), of({1, 8}, {1, 0, 1, 0, 2, 0.5f, 0.25f, 4})}, {y})
                .status,
            QUERN_OK);
  EXPECT_EQ(y.floats(), (std::vector<float>{1 - 0.75f, -4 - 1.0f, 1.5f - 0.75f, 1, 1}));
}

TEST(LogitBias, AddsToItsTokensAndSkipsMinusOne) {
  Plugin plugin;
  const Tensor y = make(QUERN_F32, {1, 4});
  const Outcome outcome =
      run_node(plugin, QUERN_OP_LOGIT_BIAS, {of({1, 4}, {1, 2, 3, 4}), ints({1, 3}, {2, -1, 9}), of({1, 3}, {10, 20, 30})}, {y});
  EXPECT_EQ(outcome.faults, QUERN_FAULT_INDEX_RANGE);
  EXPECT_EQ(y.floats(), (std::vector<float>{1, 2, 13, 4}));
}

}  // namespace
}  // namespace quern::cpu_test
