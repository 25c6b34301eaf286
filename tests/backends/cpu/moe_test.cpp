// Mixture of experts: matmul_id has matmul's bits, the router takes the best, and what may not be addressed gives zeros.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace quern::cpu_test {
namespace {

constexpr quern_dtype all_weights[] = {QUERN_F32,  QUERN_F16,  QUERN_BF16, QUERN_Q4_0, QUERN_Q4_1, QUERN_Q5_0,
                                       QUERN_Q5_1, QUERN_Q8_0, QUERN_Q4_K, QUERN_Q5_K, QUERN_Q6_K};

/// Item `i` of the first dimension as a tensor of the others.
Tensor item(const Tensor& t, std::int64_t i) {
  Tensor out = make(t.dtype, {t.dims.begin() + 1, t.dims.end()});
  std::memcpy(out.raw().data(), t.raw().data() + static_cast<std::size_t>(i) * out.bytes(), out.bytes());
  return out;
}

/// y[t][u] by matmul, a row at a time; zeros for an id of -1.
Tensor by_matmul(Plugin& plugin, const Tensor& a, const Tensor& b, const Tensor& id, quern_dtype dtype = QUERN_F32) {
  const std::int64_t tokens = a.dims[0], used = id.dims[1], n = b.dims[1];
  Tensor y = make(dtype, {tokens, used, n});
  std::memset(y.raw().data(), 0, y.bytes());
  for (std::int64_t pair = 0; pair < tokens * used; ++pair) {
    const std::int32_t expert = id.integers()[static_cast<std::size_t>(pair)];
    if (expert < 0) continue;
    const Tensor rows = item(a, pair / used), row = make(a.dtype, {1, a.dims[2]}), product = make(dtype, {1, n});
    const std::int64_t from = a.dims[1] == 1 ? 0 : pair % used;
    std::memcpy(row.raw().data(), rows.raw().data() + static_cast<std::size_t>(from) * row.bytes(), row.bytes());
    const Outcome outcome = run_node(plugin, QUERN_OP_MATMUL, {row, item(b, expert)}, {product});
    EXPECT_EQ(outcome.status, QUERN_OK) << outcome.text;
    std::memcpy(y.raw().data() + static_cast<std::size_t>(pair) * product.bytes(), product.raw().data(), product.bytes());
  }
  return y;
}

TEST(MatmulId, HasTheBitsOfMatmulForEveryFormatAndInstructionSet) {
  const Tensor id = ints({5, 3}, {0, 3, 1, 3, 0, -1, 4, 3, 1, 3, 1, 0, 1, 4, 3});  // expert 2 has no token
  for (const std::string& family : families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    for (const quern_dtype dtype : all_weights)
      for (const std::int64_t rows : {1, 3}) {
        const Tensor a = random_tensor(QUERN_F32, {5, rows, 512}, 1), b = random_tensor(dtype, {5, 37, 512}, 2),
                     y = make(QUERN_F32, {5, 3, 37});
        std::string kernel;
        const Outcome outcome = run_node(plugin, QUERN_OP_MATMUL_ID, {a, b, id}, {y}, {}, &kernel);
        ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
        EXPECT_EQ(outcome.faults, 0u);
        EXPECT_NE(kernel.find(family_of_plain_weights(family)), std::string::npos) << kernel;
        EXPECT_EQ(std::memcmp(y.raw().data(), by_matmul(plugin, a, b, id).raw().data(), y.bytes()), 0) << kernel << " rows " << rows;
      }
  }
}

TEST(MatmulId, StaysWithinTheRoundingBound) {
  Plugin plugin(2);
  const Tensor a = random_tensor(QUERN_BF16, {4, 1, 200}, 3), b = random_tensor(QUERN_F16, {3, 11, 200}, 4),
               id = ints({4, 2}, {0, 1, 2, 1, 1, 0, 2, 0});
  const Tensor y = make(QUERN_F32, {4, 2, 11});
  ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL_ID, {a, b, id}, {y}).status, QUERN_OK);
  const std::vector<double> x = meaning(a), w = meaning(b);
  for (std::size_t pair = 0; pair < 8; ++pair)
    for (std::size_t j = 0; j < 11; ++j) {
      double r = 0, s = 0;
      for (std::size_t l = 0; l < 200; ++l) {
        const double product = x[pair / 2 * 200 + l] * w[(static_cast<std::size_t>(id.integers()[pair]) * 11 + j) * 200 + l];
        r += product;
        s += std::fabs(product);
      }
      // An f32 sum of k products in any order: (2 sqrt(k) + 8) 2^-24 of the sum of their sizes.
      EXPECT_LE(std::fabs(static_cast<double>(y.f32()[pair * 11 + j]) - r), (2 * std::sqrt(200.0) + 8) * 0x1p-24 * s);
    }
}

TEST(MatmulId, TakesMoreTokensThanAStepWithAnyThreadsAndHalfTypes) {
  Plugin one(1, {{"deterministic", "1"}}), two(2, {{"deterministic", "1"}});
  std::vector<std::int32_t> ids(600, 1);  // all but one go to expert 1, more than the 240 that are gathered at a time
  ids[77] = 0;
  const Tensor a = random_tensor(QUERN_F16, {300, 2, 70}, 5), b = random_tensor(QUERN_BF16, {2, 19, 70}, 6), id = ints({300, 2}, ids);
  const Tensor y = make(QUERN_BF16, {300, 2, 19}), z = make(QUERN_BF16, {300, 2, 19});
  ASSERT_EQ(run_node(one, QUERN_OP_MATMUL_ID, {a, b, id}, {y}).status, QUERN_OK);
  ASSERT_EQ(run_node(two, QUERN_OP_MATMUL_ID, {a, b, id}, {z}).status, QUERN_OK);
  EXPECT_EQ(std::memcmp(y.raw().data(), z.raw().data(), y.bytes()), 0);
  EXPECT_EQ(std::memcmp(y.raw().data(), by_matmul(one, a, b, id, QUERN_BF16).raw().data(), y.bytes()), 0);
}

TEST(MatmulId, ReadsExpertsThatAreNotPackedAlongTheirRows) {
  Plugin plugin(2);
  const Tensor a = random_tensor(QUERN_F32, {3, 1, 40}, 7), b = random_tensor(QUERN_F32, {2, 9, 40}, 8),
               id = ints({3, 2}, {0, 1, 1, -1, 1, 0});
  Tensor columns = make(QUERN_F32, {2, 9, 40});
  for (std::size_t e = 0; e < 2; ++e)
    for (std::size_t r = 0; r < 9; ++r)
      for (std::size_t k = 0; k < 40; ++k) columns.f32()[e * 360 + k * 9 + r] = b.f32()[e * 360 + r * 40 + k];
  columns.strides = {360 * 4, 4, 9 * 4};
  const Tensor y = make(QUERN_F32, {3, 2, 9}), z = make(QUERN_F32, {3, 2, 9});
  ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL_ID, {a, b, id}, {y}).status, QUERN_OK);
  ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL_ID, {a, columns, id}, {z}).status, QUERN_OK);
  EXPECT_EQ(std::memcmp(y.raw().data(), z.raw().data(), y.bytes()), 0);
}

TEST(MatmulId, AnIdOutOfRangeGivesZerosAndAFaultAndMinusOneZerosOnly) {
  Plugin plugin;
  const Tensor a = random_tensor(QUERN_F32, {2, 1, 32}, 9), b = random_tensor(QUERN_Q8_0, {2, 300, 32}, 10),
               y = make(QUERN_F32, {2, 2, 300});
  for (const auto& [bad, fault] : {std::pair{2, QUERN_FAULT_INDEX_RANGE}, std::pair{-2, QUERN_FAULT_INDEX_RANGE},
                                   std::pair{-1, decltype(QUERN_FAULT_INDEX_RANGE){0}}}) {
    std::fill(y.f32().begin(), y.f32().end(), 7.0f);
    const Outcome outcome = run_node(plugin, QUERN_OP_MATMUL_ID, {a, b, ints({2, 2}, {0, bad, bad, bad})}, {y});
    ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
    EXPECT_EQ(outcome.faults, fault) << bad;
    EXPECT_NE(y.f32()[0], 0.0f);
    for (std::size_t i = 300; i < 1200; ++i) ASSERT_EQ(y.f32()[i], 0.0f) << bad;
  }
  const Outcome refused = run_node(plugin, QUERN_OP_MATMUL_ID, {make(QUERN_F32, {2, 3, 32}), b, ints({2, 2}, {0, 0, 0, 0})}, {y});
  EXPECT_EQ(refused.status, QUERN_INVALID_ARGUMENT);
  EXPECT_NE(refused.text.find("a is [2, 3, 32] f32; it is [t,used|1,k] with t = 2, used = 2, k = 32"), std::string::npos) << refused.text;
}

struct Routed {
  Outcome outcome;
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};
Routed route(Plugin& plugin, const Tensor& logits, const Tensor& bias, int used, std::vector<Attribute> attributes = {}) {
  const Tensor id = make(QUERN_I32, {logits.dims[0], used}), weight = make(QUERN_F32, {logits.dims[0], used});
  attributes.push_back({QUERN_KEY_USED, static_cast<double>(used)});
  Routed r;
  r.outcome = run_node(plugin, QUERN_OP_MOE_ROUTER, {logits, bias}, {id, weight}, attributes);
  r.ids.assign(id.integers().begin(), id.integers().begin() + id.elements());
  r.weights.assign(weight.f32().begin(), weight.f32().begin() + weight.elements());
  return r;
}

TEST(MoeRouter, TakesTheBestWithTiesToTheLowestIdAndWeightsThatSumToTheScale) {
  Plugin plugin(2);
  const float two = std::log(2.0f);
  const Routed r = route(plugin, of({2, 4}, {0, two, two, -1, 5, 1, 1, 1}), absent(), 2, {{QUERN_KEY_SCALE, 3.0}});
  ASSERT_EQ(r.outcome.status, QUERN_OK) << r.outcome.text;
  EXPECT_EQ(r.ids, (std::vector<std::int32_t>{1, 2, 0, 1}));
  EXPECT_EQ(r.weights[0], 1.5f);
  EXPECT_EQ(r.weights[1], 1.5f);
  EXPECT_FLOAT_EQ(r.weights[2] + r.weights[3], 3.0f);
}

TEST(MoeRouter, MatchesF64ForBothScoresAndCountsABiasForTheChoiceOnly) {
  Plugin plugin(2);
  const Tensor x = random_tensor(QUERN_F32, {7, 64}, 11, 3.0), bias = random_tensor(QUERN_F32, {64}, 12, 0.3);
  for (const bool sigmoid : {false, true})
    for (const bool renormalise : {false, true}) {
      const Routed r = route(plugin, x, bias, 6, {{QUERN_KEY_KIND, sigmoid ? 1.0 : 0.0}, {QUERN_KEY_RENORMALISE, renormalise ? 1.0 : 0.0}});
      ASSERT_EQ(r.outcome.status, QUERN_OK) << r.outcome.text;
      for (std::size_t row = 0; row < 7; ++row) {
        std::vector<double> score;
        double sum = 0;
        for (std::size_t e = 0; e < 64; ++e) {
          const auto v = static_cast<double>(x.f32()[row * 64 + e]);
          score.push_back(sigmoid ? 1 / (1 + std::exp(-v)) : std::exp(v));
          sum += score.back();
        }
        if (!sigmoid)
          for (double& s : score) s /= sum;
        double chosen = 0;
        for (std::size_t u = 0; u < 6; ++u) chosen += score[static_cast<std::size_t>(r.ids[row * 6 + u])];
        for (std::size_t u = 0; u < 6; ++u) {
          const auto id = static_cast<std::size_t>(r.ids[row * 6 + u]);
          const auto key = [&](std::size_t e) { return score[e] + static_cast<double>(bias.f32()[e]); };
          std::size_t better = 0;
          for (std::size_t e = 0; e < 64; ++e) better += key(e) > key(id);
          EXPECT_EQ(better, u);
          // One rounding of an f64 result.
          const double exact = renormalise ? score[id] / chosen : score[id];
          EXPECT_LE(std::fabs(static_cast<double>(r.weights[row * 6 + u]) - exact), 0x1p-23 * exact);
        }
      }
    }
}

TEST(MoeRouter, ANaNStaysInItsRowAndIdsStayInRange) {
  Plugin plugin(2);
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  const Routed r = route(plugin, of({3, 3}, {nan, 1, 2, -infinity, -infinity, -infinity, 1, 2, 3}), absent(), 3);
  ASSERT_EQ(r.outcome.status, QUERN_OK) << r.outcome.text;
  EXPECT_EQ(r.ids, (std::vector<std::int32_t>{2, 1, 0, 0, 1, 2, 2, 1, 0}));
  EXPECT_TRUE(std::isnan(r.weights[0]));
  for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(r.weights[i], 0.0f);
  EXPECT_FLOAT_EQ(r.weights[6] + r.weights[7] + r.weights[8], 1.0f);
  const Routed refused = route(plugin, of({1, 3}, {1, 2, 3}), absent(), 4);
  EXPECT_EQ(refused.outcome.status, QUERN_INVALID_ARGUMENT);
  EXPECT_NE(refused.outcome.text.find("used is 4"), std::string::npos) << refused.outcome.text;
}

TEST(MoeCombine, AddsInTheOrderOfItsExpertsAndRoundsOnce) {
  for (const std::string& family : families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16}) {
      const Tensor x = random_tensor(dtype, {3, 4, 300}, 13), w = random_tensor(QUERN_F32, {3, 4}, 14), y = make(dtype, {3, 300});
      ASSERT_EQ(run_node(plugin, QUERN_OP_MOE_COMBINE, {x, w}, {y}).status, QUERN_OK);
      const std::vector<float> values = x.floats(), got = y.floats();
      for (std::size_t i = 0; i < 900; ++i) {
        float sum = 0;
        for (std::size_t u = 0; u < 4; ++u) {
          const float weight = w.f32()[i / 300 * 4 + u], value = values[(i / 300 * 4 + u) * 300 + i % 300];
          sum = family == "portable" ? sum + weight * value : std::fma(weight, value, sum);
        }
        if (dtype == QUERN_F32) EXPECT_EQ(got[i], sum) << family;
        else EXPECT_NEAR(got[i], sum, std::fabs(sum) * (dtype == QUERN_F16 ? 0x1p-11f : 0x1p-8f) + 3e-8f);  // half an ulp of y
      }
    }
  }
}

}  // namespace
}  // namespace quern::cpu_test
