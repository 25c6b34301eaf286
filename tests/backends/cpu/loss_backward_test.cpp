// Gradients of losses, gathered rows and the router against f64 formulas, which are held to central differences.
#include "gradient_check.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace quern::cpu_test {
namespace {

const float nan = std::nanf("");
constexpr float infinity = std::numeric_limits<float>::infinity();
const quern_dtype float_dtypes[] = {QUERN_F32, QUERN_F16, QUERN_BF16};
using Doubles = std::vector<double>;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// loss = lse - (1 - s) x[label] - s mean(x) + z lse^2
double cross_entropy(const Doubles& x, std::size_t label, double smoothing, double z_loss) {
  double sum = 0, total = 0;
  for (const double v : x) sum += std::exp(v), total += v;
  const double lse = std::log(sum);
  return lse - (1 - smoothing) * x[label] - smoothing * total / static_cast<double>(x.size()) + z_loss * lse * lse;
}
Doubles cross_entropy_slopes(const Doubles& x, std::size_t label, double lse, double dloss, double smoothing, double z_loss) {
  Doubles dx;
  for (std::size_t i = 0; i < x.size(); ++i)
    dx.push_back(dloss * ((1 + 2 * z_loss * lse) * std::exp(x[i] - lse) - smoothing / static_cast<double>(x.size()) -
                          (i == label ? 1 - smoothing : 0)));
  return dx;
}

TEST(CrossEntropyBackward, MatchesF64OverAVocabularyAndTheFormulaIsTheSlope) {
  for (const std::string& family : families())
    for (const quern_dtype dtype : float_dtypes)
      for (const auto& [smoothing, z_loss] : {std::pair{0.0, 0.0}, std::pair{0.1, 1e-3}, std::pair{1.0, 0.0}}) {
        constexpr std::size_t n = 49999;
        Plugin plugin(2, {{"force_kernel", family}});
        const Tensor x = random_tensor(dtype, {3, n}, 19, 4.0), label = ints({3}, {0, n - 1, 777}), loss = make(QUERN_F32, {3}),
                     lse = make(QUERN_F32, {3}), dlogits = make(dtype, {3, n});
        const Tensor dloss = of({3}, {1, -0.5f, 0.25f});
        const std::vector<Attribute> attributes = {{QUERN_KEY_SMOOTHING, smoothing}, {QUERN_KEY_Z_LOSS, z_loss}};
        ASSERT_EQ(run_node(plugin, QUERN_OP_CROSS_ENTROPY, {x, label}, {loss, lse}, attributes).status, QUERN_OK);
        const Outcome outcome = run_node(plugin, QUERN_OP_CROSS_ENTROPY_BACKWARD, {x, label, lse, dloss}, {dlogits}, attributes);
        ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
        const Doubles all = meaning(x), got = meaning(dlogits);
        for (std::size_t t = 0; t < 3; ++t) {
          const auto begin = static_cast<std::ptrdiff_t>(t * n);
          const double sum = static_cast<double>(lse.f32()[t]), d = static_cast<double>(dloss.f32()[t]);
          const Doubles row(all.begin() + begin, all.begin() + begin + n),
              r = cross_entropy_slopes(row, static_cast<std::size_t>(label.integers()[t]), sum, d, smoothing, z_loss);
          for (std::size_t i = 0; i < n; ++i) {
            // exp within (3 + 2 |x - lse|) ulp, its argument rounded once, a factor, then up to two differences of terms of this size.
            const double p = std::fabs(d) * (1 + 2 * z_loss * std::fabs(sum)) * std::exp(row[i] - sum),
                         size = p + std::fabs(d) * smoothing / n + (r[i] < -std::fabs(d) * 0.01 ? std::fabs(d) : 0) + std::fabs(r[i]);
            ASSERT_LE(std::fabs(got[t * n + i] - r[i]), (16 + 4 * std::fabs(row[i] - sum)) * u * p + 4 * u * size + out_error(dtype, r[i]))
                << family << " row " << t << " element " << i;
          }
        }
      }
  const Doubles x = {0.5, -1, 2, 0.25, 1};
  double sum = 0;
  for (const double v : x) sum += std::exp(v);
  const Doubles r = cross_entropy_slopes(x, 3, std::log(sum), 2, 0.1, 0.01);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(2 * slope_at(x, i, [](const Doubles& at) { return cross_entropy(at, 3, 0.1, 0.01); }), r[i], 1e-9);
}

TEST(CrossEntropyBackward, IgnoredRowsAreExactlyZeroAndLabelsOutOfRangeAFault) {
  Plugin plugin;
  const Tensor x = of({4, 2}, {nan, 1, 1e4f, -1e4f, 0, 0, 3, 3}), lse = of({4}, {nan, 1e4f, std::log(2.0f), 4}),
               dloss = of({4}, {1, 1, 2, 1}), dx = make(QUERN_F32, {4, 2});
  Outcome outcome = run_node(plugin, QUERN_OP_CROSS_ENTROPY_BACKWARD, {x, ints({4}, {-100, 1, 0, -100}), lse, dloss}, {dx});
  EXPECT_EQ(outcome.faults, 0u);
  const float expected[] = {0, 0, 1, -1, -1, 1, 0, 0};
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_NEAR(dx.f32()[i], expected[i], i >= 4 && i < 6 ? 4e-7f : 0.0f) << i;  // ln 2 is rounded: 2 exp(-u) is 2 ulp off
  for (const std::int32_t bad : {2, -1}) {
    outcome = run_node(plugin, QUERN_OP_CROSS_ENTROPY_BACKWARD, {x, ints({4}, {-100, 0, bad, -100}), lse, dloss}, {dx});
    EXPECT_EQ(outcome.faults, QUERN_FAULT_INDEX_RANGE) << bad;
    for (const std::size_t i : {0u, 1u, 4u, 5u, 6u, 7u}) EXPECT_EQ(dx.f32()[i], 0.0f);
  }
  outcome = run_node(plugin, QUERN_OP_CROSS_ENTROPY_BACKWARD, {x, ints({4}, {1, 1, 1, 1}), lse, dloss}, {dx}, {{QUERN_KEY_IGNORE, 1}});
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(dx.f32()[i], 0.0f);  // all ignored
}

TEST(MaskedMeanBackward, SharesDyAndDividesNothingByZero) {
  Plugin plugin;
  const Tensor dx = make(QUERN_F32, {5});
  ASSERT_EQ(run_node(plugin, QUERN_OP_MASKED_MEAN_BACKWARD, {ints({5}, {1, 0, -7, 0, 1}), of({1}, {3}), of({1}, {6})}, {dx}).status,
            QUERN_OK);
  EXPECT_EQ(std::vector<float>(dx.f32().begin(), dx.f32().begin() + 5), (std::vector<float>{2, 0, 2, 0, 2}));
  ASSERT_EQ(run_node(plugin, QUERN_OP_MASKED_MEAN_BACKWARD, {ints({5}, {0, 0, 0, 0, 0}), of({1}, {0}), of({1}, {6})}, {dx}).status,
            QUERN_OK);
  EXPECT_EQ(std::vector<float>(dx.f32().begin(), dx.f32().begin() + 5), (std::vector<float>(5, 0.0f)));
}

TEST(GetRowsBackward, AddsDuplicatesInOrderWithOneRounding) {
  for (const std::string& family : families())
    for (const quern_dtype dtype : float_dtypes)
      for (const std::int64_t h : {1, 33, 1500})
        for (const bool accumulate : {false, true}) {
          Plugin plugin(3, {{"force_kernel", family}});
          constexpr std::size_t t = 40, n = 9;
          const Tensor dy = random_tensor(dtype, {t, h}, 20);
          Tensor index = make(QUERN_I64, {t}), dtable = random_tensor(dtype, {n, h}, 21);
          dtable.kind = QUERN_VALUE_STATE;
          const Doubles before = meaning(dtable), from = meaning(dy);
          for (std::size_t i = 0; i < t; ++i) reinterpret_cast<std::int64_t*>(index.raw().data())[i] = static_cast<std::int64_t>(i * i % 7);
          const Outcome outcome =
              run_node(plugin, QUERN_OP_GET_ROWS_BACKWARD, {dy, index}, {dtable}, {{QUERN_KEY_ACCUMULATE, accumulate ? 1.0 : 0.0}});
          ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
          const Doubles got = meaning(dtable);
          for (std::size_t row = 0; row < n; ++row)
            for (std::size_t c = 0; c < static_cast<std::size_t>(h); ++c) {
              float r = accumulate ? static_cast<float>(before[row * static_cast<std::size_t>(h) + c])
                                   : 0.0f;  // exactly this order, in f32
              for (std::size_t i = 0; i < t; ++i)
                if (i * i % 7 == row) r += static_cast<float>(from[i * static_cast<std::size_t>(h) + c]);
              const double value = got[row * static_cast<std::size_t>(h) + c];
              if (dtype == QUERN_F32) ASSERT_EQ(static_cast<float>(value), r) << family;
              else ASSERT_LE(std::fabs(value - static_cast<double>(r)), out_error(dtype, static_cast<double>(r))) << family;
            }
        }
}

TEST(GetRowsBackward, SkipsAnIndexOutOfRangeWithAFaultAndDeadRows) {
  Plugin plugin;
  const Tensor dy = of({4, 2}, {1, 2, nan, nan, 3, 4, nan, nan}), dtable = make(QUERN_F32, {3, 2});
  Outcome outcome = run_node(plugin, QUERN_OP_GET_ROWS_BACKWARD, {dy, ints({4}, {2, 3, 2, -1})}, {dtable});
  EXPECT_EQ(outcome.faults, QUERN_FAULT_INDEX_RANGE);
  EXPECT_EQ(std::vector<float>(dtable.f32().begin(), dtable.f32().begin() + 6), (std::vector<float>{0, 0, 0, 0, 4, 6}));
  outcome = run_node(plugin, QUERN_OP_GET_ROWS_BACKWARD, {dy, ints({4}, {2, 1, 2, -1})}, {dtable}, {}, nullptr, ints({4}, {1, 0, 1, 0}));
  EXPECT_EQ(outcome.faults, 0u) << outcome.text;
  EXPECT_EQ(std::vector<float>(dtable.f32().begin(), dtable.f32().begin() + 6), (std::vector<float>{0, 0, 0, 0, 4, 6}));
}

/// The weights of chosen experts in f64.
Doubles router_weights(const Doubles& logits, const std::vector<std::size_t>& ids, bool sigmoids, bool renormalise, double scale) {
  Doubles score;
  double sum = 0, chosen = 0;
  for (const double v : logits) sum += std::exp(v);
  for (const double v : logits) score.push_back(sigmoids ? sigmoid(v) : std::exp(v) / sum);
  for (const std::size_t e : ids) chosen += score[e];
  Doubles w;
  for (const std::size_t e : ids) w.push_back(score[e] / (renormalise ? chosen : 1) * scale);
  return w;
}

TEST(MoeRouterBackward, IsTheSlopeOfTheWeights) {
  constexpr std::size_t rows = 5, experts = 11, used = 3;
  Plugin plugin(2);
  for (const bool sigmoids : {false, true})
    for (const bool renormalise : {false, true})
      for (const bool biased : {false, true}) {
        const Tensor logits = random_tensor(QUERN_F32, {rows, experts}, 22, 2.0), bias = random_tensor(QUERN_F32, {experts}, 23),
                     id = make(QUERN_I32, {rows, used}), weight = make(QUERN_F32, {rows, used}),
                     dweight = random_tensor(QUERN_F32, {rows, used}, 24), dlogits = make(QUERN_F32, {rows, experts});
        const std::vector<Attribute> attributes = {{QUERN_KEY_USED, used},
                                                   {QUERN_KEY_KIND, sigmoids ? 1.0 : 0.0},
                                                   {QUERN_KEY_RENORMALISE, renormalise ? 1.0 : 0.0},
                                                   {QUERN_KEY_SCALE, 2.5}};
        ASSERT_EQ(run_node(plugin, QUERN_OP_MOE_ROUTER, {logits, biased ? bias : absent()}, {id, weight}, attributes).status, QUERN_OK);
        const Outcome outcome =
            run_node(plugin, QUERN_OP_MOE_ROUTER_BACKWARD, {logits, biased ? bias : absent(), id, dweight}, {dlogits}, attributes);
        ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
        const Doubles all = meaning(logits), d = meaning(dweight);
        for (std::size_t t = 0; t < rows; ++t) {
          std::vector<std::size_t> ids;
          for (std::size_t j = 0; j < used; ++j) ids.push_back(static_cast<std::size_t>(id.integers()[t * used + j]));
          const Doubles row(all.begin() + static_cast<std::ptrdiff_t>(t * experts),
                            all.begin() + static_cast<std::ptrdiff_t>((t + 1) * experts)),
              from(d.begin() + static_cast<std::ptrdiff_t>(t * used), d.begin() + static_cast<std::ptrdiff_t>((t + 1) * used));
          for (std::size_t e = 0; e < experts; ++e) {
            const double r =
                slope_at(row, e, [&](const Doubles& at) { return dot(router_weights(at, ids, sigmoids, renormalise, 2.5), from); });
            EXPECT_NEAR(static_cast<double>(dlogits.f32()[t * experts + e]), r,
                        2 * u * std::fabs(r) + 1e-8);  // f64 until the store; 1e-8 is the difference's
          }
        }
      }
}

TEST(MoeRouterBackward, SkipsMissingExpertsAndScoresThatAreAllZero) {
  Plugin plugin;
  const Tensor logits = of({2, 3}, {-infinity, -infinity, -infinity, 1, 2, 3}), dweight = of({2, 2}, {1, 2, 3, 4}),
               dlogits = make(QUERN_F32, {2, 3});
  Outcome outcome = run_node(plugin, QUERN_OP_MOE_ROUTER_BACKWARD, {logits, absent(), ints({2, 2}, {0, 1, -1, -1}), dweight}, {dlogits},
                             {{QUERN_KEY_USED, 2}});
  EXPECT_EQ(outcome.faults, 0u) << outcome.text;
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(dlogits.f32()[i], 0.0f) << i;
  outcome = run_node(plugin, QUERN_OP_MOE_ROUTER_BACKWARD, {logits, absent(), ints({2, 2}, {0, 1, 2, 3}), dweight}, {dlogits},
                     {{QUERN_KEY_USED, 2}});
  EXPECT_EQ(outcome.faults, QUERN_FAULT_INDEX_RANGE);
}

}  // namespace
}  // namespace quern::cpu_test
