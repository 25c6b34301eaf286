// The audit's models and what it expects of them.
#include "audit/model_reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace quern::conformance {
namespace {

TEST(AuditModels, AreWholeWhateverTheSeed) {
  std::set<std::string> architectures;
  std::set<quern_dtype> formats;
  std::set<std::uint32_t> ratios;
  for (std::uint64_t seed = 0; seed < 300; ++seed)
    for (std::uint32_t n = 0; n < 6; ++n) {
      Draws draws(CounterRandom(seed).stream(n));
      const ModelShape s = draw_shape(n, draws);
      SCOPED_TRACE(s.words());
      ASSERT_GT(s.kv_heads, 0u);
      EXPECT_EQ(s.heads % s.kv_heads, 0u);
      EXPECT_EQ(s.head_size % 2, 0u);
      EXPECT_TRUE(s.rope_size >= 2 && s.rope_size % 2 == 0 && s.rope_size <= s.head_size);
      EXPECT_LE(s.heads * s.head_size, 512u);
      EXPECT_EQ(s.hidden % unit_of(s.format).elements, 0);
      EXPECT_GT(s.vocabulary, 3u);
      EXPECT_TRUE(n % 2 == 0 || s.layers * 14 > 100) << "a plan that is no larger than those of the suite";
      architectures.insert(s.architecture);
      formats.insert(s.format);
      ratios.insert(s.heads / s.kv_heads);
    }
  EXPECT_EQ(architectures.size(), 3u);
  EXPECT_EQ(formats.size(), 11u);
  for (std::uint32_t ratio = 1; ratio <= 7; ++ratio) EXPECT_TRUE(ratios.contains(ratio)) << ratio;
}

/// A model of three layers with blocks for weights.
RandomModel small_model(std::uint64_t seed) {
  ModelShape s;
  s.architecture = "qwen3";
  s.layers = 3;
  s.hidden = 64;
  s.heads = 6;
  s.kv_heads = 2;
  s.head_size = s.rope_size = 16;
  s.ffn = 96;
  s.vocabulary = 80;
  s.epsilon = 1e-6f;
  s.rope_base = 1e4f;
  s.format = QUERN_Q4_0;
  return RandomModel(s, CounterRandom(seed));
}

std::vector<std::int32_t> some_ids() { return {7, 3, 21, 60, 4, 33, 9, 79, 12, 50, 8, 8}; }

TEST(AuditModels, OneSeedGivesOneFileAndAnotherAnother) {
  EXPECT_EQ(small_model(1).gguf(), small_model(1).gguf());
  EXPECT_NE(small_model(1).gguf(), small_model(2).gguf());
}

/// The share of rows in which some logit is further away than allowed.
double refused_rows(const ExpectedLogits& expected, const std::vector<std::vector<double>>& found) {
  std::size_t refused = 0;
  for (std::size_t t = 0; t < found.size(); ++t) {
    bool out = false;
    for (std::size_t i = 0; i < found[t].size(); ++i)
      out = out || std::abs(found[t][i] - expected.logits[t][i]) > most_deviations * expected.deviation[t];
    refused += out;
  }
  return static_cast<double>(refused) / static_cast<double>(found.size());
}

TEST(AuditReference, AllowsTheRoundingThatItIsMadeOfAndNoCoarserOne) {
  const RandomModel model = small_model(3);
  const std::vector<std::int32_t> ids = some_ids();
  for (const Rounding rounding : {Rounding::exact, Rounding::fast}) {
    const ExpectedLogits expected = expected_logits(model, ids, rounding, CounterRandom(4));
    EXPECT_EQ(refused_rows(expected, model_logits(model, ids, rounding, CounterRandom(5))), 0) << "rounding of its own kind is refused";
  }
  const ExpectedLogits exact = expected_logits(model, ids, Rounding::exact, CounterRandom(4));
  EXPECT_EQ(refused_rows(exact, model_logits(model, ids, Rounding::fast, CounterRandom(5))), 1)
      << "exact numerics may not convert activations";
}

TEST(AuditReference, RefusesAGainOfAThousandthAndAModelOfAnotherSeed) {
  const RandomModel model = small_model(3);
  const std::vector<std::int32_t> ids = some_ids();
  const ExpectedLogits exact = expected_logits(model, ids, Rounding::exact, CounterRandom(4));
  std::vector<std::vector<double>> louder = exact.logits;
  for (std::vector<double>& row : louder)
    for (double& logit : row) logit *= 1.001;
  EXPECT_EQ(refused_rows(exact, louder), 1);
  const ExpectedLogits fast = expected_logits(model, ids, Rounding::fast, CounterRandom(4));
  EXPECT_EQ(refused_rows(fast, model_logits(small_model(4), ids, Rounding::none, CounterRandom(5))), 1);
}

TEST(AuditReference, APositionSeesWhatIsBeforeItAlone) {
  const RandomModel model = small_model(3);
  std::vector<std::int32_t> ids = some_ids();
  const auto before = model_logits(model, ids, Rounding::none, CounterRandom(0));
  ids.back() = 40;
  const auto after = model_logits(model, ids, Rounding::none, CounterRandom(0));
  for (std::size_t t = 0; t + 1 < ids.size(); ++t) EXPECT_EQ(before[t], after[t]) << t;
  EXPECT_NE(before.back(), after.back());
}

}  // namespace
}  // namespace quern::conformance
