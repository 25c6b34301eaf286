// Norms and reductions against f64 within (2 sqrt(n) + 8) u S, with their edge cases.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace quern::cpu_test {
namespace {

constexpr double u = 0x1p-24;
constexpr float infinity = std::numeric_limits<float>::infinity();
const quern_dtype float_dtypes[] = {QUERN_F32, QUERN_F16, QUERN_BF16};

double unit_of(quern_dtype dtype) { return dtype == QUERN_F16 ? 0x1p-11 : dtype == QUERN_BF16 ? 0x1p-8 : u; }
double out_error(quern_dtype dtype, double r) {
  return unit_of(dtype) * std::fabs(r) * (1 + 0x1p-4) + (dtype == QUERN_F16 ? 0x1p-25 : 0x1p-134);
}
double accumulation(std::int64_t n) { return (2 * std::sqrt(static_cast<double>(n)) + 8) * u; }

/// Random numbers around `centre`, rounded to the dtype.
Tensor around(quern_dtype dtype, std::vector<std::int64_t> dims, std::uint32_t seed, float centre) {
  std::vector<float> values;
  for (const double x : meaning(random_tensor(QUERN_F32, dims, seed))) values.push_back(centre + static_cast<float>(x));
  return of(dims, values, dtype);
}

TEST(LayerNorm, MatchesF64AlsoFarFromZero) {
  Plugin plugin(2);
  for (const quern_dtype dtype : float_dtypes)
    for (const float centre : {0.0f, 30.0f})
      for (const std::int64_t n : {1, 15, 576, 5000})
        for (const bool affine : {false, true}) {
          const Tensor x = around(dtype, {3, n}, 1, centre), w = random_tensor(QUERN_F32, {n}, 2), b = random_tensor(QUERN_F32, {n}, 3),
                       y = make(dtype, {3, n});
          const Outcome outcome =
              run_node(plugin, QUERN_OP_LAYER_NORM, affine ? std::vector<Tensor>{x, w, b} : std::vector<Tensor>{x, absent(), absent()}, {y},
                       {{QUERN_KEY_EPSILON, 1e-5}});
          ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
          const std::vector<double> from = meaning(x), got = meaning(y);
          const auto count = static_cast<std::size_t>(n);
          for (std::size_t row = 0; row < 3; ++row) {
            double mean = 0, size = 0, variance = 0;
            for (std::size_t i = 0; i < count; ++i) mean += from[row * count + i], size += std::fabs(from[row * count + i]);
            mean /= static_cast<double>(n);
            size /= static_cast<double>(n);
            for (std::size_t i = 0; i < count; ++i) variance += std::pow(from[row * count + i] - mean, 2);
            const double scale = 1 / std::sqrt(variance / static_cast<double>(n) + static_cast<double>(1e-5f));
            for (std::size_t i = 0; i < count; ++i) {
              const double weight = affine ? static_cast<double>(w.f32()[i]) : 1, bias = affine ? static_cast<double>(b.f32()[i]) : 0;
              const double normed = (from[row * count + i] - mean) * scale * weight, r = normed + bias;
              // The mean is off by the bound of a sum, which moves y by scale * weight of it; the root by half that of the squares.
              const double bound = accumulation(n) * (std::fabs(normed) + size * scale * std::fabs(weight)) + u * std::fabs(r);
              ASSERT_LE(std::fabs(got[row * count + i] - r), bound + out_error(dtype, r)) << "n " << n << " centre " << centre;
            }
          }
        }
}

TEST(LayerNorm, OfAConstantRowIsItsBiasAndANaNStaysInItsRow) {
  Plugin plugin;
  const Tensor x = of({3, 4}, {7, 7, 7, 7, 1, std::nanf(""), 2, 3, -1, 1, -1, 1}), y = make(QUERN_F32, {3, 4});
  ASSERT_EQ(run_node(plugin, QUERN_OP_LAYER_NORM, {x, absent(), of({4}, {1, 2, 3, 4})}, {y}, {{QUERN_KEY_EPSILON, 1e-5}}).status, QUERN_OK);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(y.f32()[i], static_cast<float>(i + 1));
    EXPECT_TRUE(std::isnan(y.f32()[4 + i]));
    EXPECT_NEAR(y.f32()[8 + i], static_cast<float>(i + 1) + (i % 2 == 0 ? -1.0f : 1.0f), 1e-5f);
  }
  const Tensor large = of({1, 4}, {65504, -65504, 65504, -65504}, QUERN_F16), z = make(QUERN_F16, {1, 4});
  ASSERT_EQ(run_node(plugin, QUERN_OP_LAYER_NORM, {large}, {z}, {{QUERN_KEY_EPSILON, 1e-5}}).status, QUERN_OK);
  EXPECT_EQ(z.floats(), (std::vector<float>{1, -1, 1, -1}));
}

TEST(Norms, RefuseAnEpsilonOfZeroAndAWeightOfAnotherLength) {
  Plugin plugin;
  const Tensor x = of({1, 2}, {1, 2}), y = make(QUERN_F32, {1, 2});
  EXPECT_EQ(run_node(plugin, QUERN_OP_LAYER_NORM, {x}, {y}, {{QUERN_KEY_EPSILON, 0}}).status, QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(run_node(plugin, QUERN_OP_L2_NORM, {x}, {y}, {{QUERN_KEY_EPSILON, 0}}).status, QUERN_INVALID_ARGUMENT);
  const Outcome outcome = run_node(plugin, QUERN_OP_LAYER_NORM, {x, of({3}, {1, 1, 1})}, {y}, {{QUERN_KEY_EPSILON, 1}});
  EXPECT_EQ(outcome.status, QUERN_INVALID_ARGUMENT);
  EXPECT_NE(outcome.text.find("weight is [3] f32"), std::string::npos) << outcome.text;
}

TEST(L2Norm, MatchesF64AndDividesByEpsilonWhenShort) {
  Plugin plugin(2);
  for (const quern_dtype dtype : float_dtypes)
    for (const std::int64_t n : {1, 17, 4097}) {
      const Tensor x = random_tensor(dtype, {4, n}, 5), y = make(dtype, {4, n});
      ASSERT_EQ(run_node(plugin, QUERN_OP_L2_NORM, {x}, {y}, {{QUERN_KEY_EPSILON, 1e-6}}).status, QUERN_OK);
      const std::vector<double> from = meaning(x), got = meaning(y);
      for (std::size_t row = 0; row < 4; ++row) {
        double squares = 0;
        for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) squares += std::pow(from[row * static_cast<std::size_t>(n) + i], 2);
        for (std::size_t i = row * static_cast<std::size_t>(n); i < (row + 1) * static_cast<std::size_t>(n); ++i) {
          const double r = from[i] / std::sqrt(squares);
          ASSERT_LE(std::fabs(got[i] - r), accumulation(n) * std::fabs(r) + out_error(dtype, r));
        }
      }
    }
  const Tensor y = make(QUERN_F32, {2, 2});
  ASSERT_EQ(run_node(plugin, QUERN_OP_L2_NORM, {of({2, 2}, {0, 0, 3, 4})}, {y}, {{QUERN_KEY_EPSILON, 10}}).status, QUERN_OK);
  EXPECT_EQ(y.floats(), (std::vector<float>{0, 0, 0.3f, 0.4f}));
}

TEST(AddRmsNorm, GivesTheBitsOfAddAndRmsNorm) {
  for (const std::string& family : families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    for (const quern_dtype dtype : float_dtypes)
      for (const std::int64_t n : {1, 64, 1000}) {
        const Tensor a = random_tensor(dtype, {5, n}, 6), b = random_tensor(dtype, {5, n}, 7), w = random_tensor(QUERN_F32, {n}, 8);
        const Tensor sum = make(dtype, {5, n}), y = make(dtype, {5, n}), sum2 = make(dtype, {5, n}), y2 = make(dtype, {5, n});
        const std::vector<Attribute> attributes = {{QUERN_KEY_EPSILON, 1e-5}, {QUERN_KEY_WEIGHT_OFFSET, 1}};
        const Outcome outcome = run_node(plugin, QUERN_OP_ADD_RMS_NORM, {a, b, w}, {sum, y}, attributes);
        ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
        ASSERT_EQ(run_node(plugin, QUERN_OP_ADD, {a, b}, {sum2}).status, QUERN_OK);
        ASSERT_EQ(run_node(plugin, QUERN_OP_RMS_NORM, {sum2, w}, {y2}, attributes).status, QUERN_OK);
        EXPECT_EQ(std::memcmp(sum.raw().data(), sum2.raw().data(), sum.bytes()), 0) << family;
        EXPECT_EQ(std::memcmp(y.raw().data(), y2.raw().data(), y.bytes()), 0) << family;
      }
  }
}

TEST(AddRmsNorm, RunsInPlaceOfBothInputs) {
  Plugin plugin;
  GraphSpec graph;
  const Tensor a = of({1, 2}, {1, 2}, QUERN_F32, QUERN_VALUE_STATE), b = of({1, 2}, {2, 2}, QUERN_F32, QUERN_VALUE_STATE);
  const std::uint32_t ai = graph.add(a), bi = graph.add(b), w = graph.add(of({2}, {1, 1}));
  graph.nodes.push_back({QUERN_OP_ADD_RMS_NORM, {ai, bi, w}, {ai, bi}, {{QUERN_KEY_EPSILON, 1e-12}}});
  const Outcome outcome = plugin.run(graph);
  ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
  EXPECT_EQ(a.floats(), (std::vector<float>{3, 4}));
  EXPECT_NEAR(b.f32()[0], 3 / std::sqrt(12.5f), 1e-6f);
  EXPECT_NEAR(b.f32()[1], 4 / std::sqrt(12.5f), 1e-6f);
}

struct Sums {
  double sum = 0, size = 0, squares = 0;
};
Sums sums_of(const std::vector<double>& x) {
  Sums s;
  for (const double v : x) s.sum += v, s.size += std::fabs(v), s.squares += v * v;
  return s;
}

TEST(Reductions, OverAllElementsMatchF64WithTheSameBitsForAnyThreads) {
  Plugin one(1), four(4);
  for (const quern_dtype dtype : float_dtypes)
    for (const std::vector<std::int64_t>& dims : {std::vector<std::int64_t>{}, {1}, {3, 5}, {100, 1000}, {2, 3, 9000}, {5000, 2}}) {
      const Tensor x = around(dtype, dims, 9, 1.0f);
      const Sums s = sums_of(meaning(x));
      const double n = static_cast<double>(x.elements()), e = accumulation(x.elements());
      const auto check = [&](std::uint32_t op, double r, double bound) {
        const Tensor y = make(QUERN_F32, {1}), z = make(QUERN_F32, {1});
        const Outcome outcome = run_node(one, op, {x}, {y});
        ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
        ASSERT_EQ(run_node(four, op, {x}, {z}).status, QUERN_OK);
        EXPECT_LE(std::fabs(static_cast<double>(y.f32()[0]) - r), bound + out_error(QUERN_F32, r)) << "op " << op << " of " << x.elements();
        EXPECT_EQ(y.f32()[0], z.f32()[0]);
      };
      check(QUERN_OP_SUM, s.sum, e * s.size);
      check(QUERN_OP_MEAN, s.sum / n, e * s.size / n);
      check(QUERN_OP_NORM, std::sqrt(s.squares), e * std::sqrt(s.squares));
    }
}

TEST(Reductions, OfAllPositiveNumbersKeepTheirAccuracy) {
  Plugin plugin(2);
  constexpr std::size_t n = 1 << 22;  // one accumulator stalls at 2^24 tenths and is off by far more
  const Tensor x = of({n}, std::vector<float>(n, 0.1f)), y = make(QUERN_F32, {1});
  ASSERT_EQ(run_node(plugin, QUERN_OP_SUM, {x}, {y}).status, QUERN_OK);
  const double r = static_cast<double>(n) * static_cast<double>(0.1f);
  EXPECT_LE(std::fabs(static_cast<double>(y.f32()[0]) - r), 64 * u * r);  // a sum of 512 is the longest in f32: 32 and 4 additions
}

TEST(Reductions, ReadStridedViewsAndNothingBetween) {
  Plugin plugin(2);
  for (const std::int64_t width : {2, 5000}) {
    GraphSpec graph;  // [3, width] inside [3, width + 1], whose last column is NaN
    Tensor whole = random_tensor(QUERN_F32, {3, width + 1}, 10), view = make(QUERN_F32, {3, width});
    std::vector<double> seen;
    for (std::int64_t i = 0; i < whole.elements(); ++i) {
      if (i % (width + 1) == width) whole.f32()[static_cast<std::size_t>(i)] = std::nanf("");
      else seen.push_back(static_cast<double>(whole.f32()[static_cast<std::size_t>(i)]));
    }
    view.strides = {(width + 1) * 4, 4};
    view.alias_of = graph.add(whole);
    const Tensor y = make(QUERN_F32, {1}, QUERN_VALUE_OUTPUT);
    const std::uint32_t from = graph.add(view), to = graph.add(y);
    graph.nodes.push_back({QUERN_OP_SUM, {from}, {to}});
    const Outcome outcome = plugin.run(graph);
    ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
    const Sums s = sums_of(seen);
    EXPECT_LE(std::fabs(static_cast<double>(y.f32()[0]) - s.sum), accumulation(3 * width) * s.size + out_error(QUERN_F32, s.sum));
  }
}

TEST(Reductions, OfRowsMatchF64) {
  Plugin plugin(2);
  for (const quern_dtype dtype : float_dtypes)
    for (const std::int64_t n : {1, 100, 151936}) {
      const Tensor x = random_tensor(dtype, {2, 1, n}, 11, 4.0), largest = make(dtype, {2, 1}), sum = make(dtype, {2, 1, 1}),
                   lse = make(dtype, {2, 1});
      ASSERT_EQ(run_node(plugin, QUERN_OP_MAX, {x}, {largest}).status, QUERN_OK);
      ASSERT_EQ(run_node(plugin, QUERN_OP_SUM_ROWS, {x}, {sum}).status, QUERN_OK);
      ASSERT_EQ(run_node(plugin, QUERN_OP_LOGSUMEXP, {x}, {lse}).status, QUERN_OK);
      const std::vector<double> from = meaning(x);
      for (std::size_t row = 0; row < 2; ++row) {
        const auto begin = from.begin() + static_cast<std::int64_t>(row) * n;
        const std::vector<double> values(begin, begin + n);
        const Sums s = sums_of(values);
        const double best = *std::max_element(values.begin(), values.end());
        double exps = 0, weighted = 0;
        for (const double v : values) exps += std::exp(v - best), weighted += std::exp(v - best) * 2 * (best - v);
        const double r = best + std::log(exps);
        EXPECT_EQ(meaning(largest)[row], best);
        EXPECT_LE(std::fabs(meaning(sum)[row] - s.sum), accumulation(n) * s.size + out_error(dtype, s.sum));
        // Absolute: (4 sqrt(n) + 32 + 2 |x - max|) u, the last term in the mean over the terms of the sum.
        EXPECT_LE(std::fabs(meaning(lse)[row] - r),
                  (4 * std::sqrt(static_cast<double>(n)) + 32 + weighted / exps) * u + out_error(dtype, r));
      }
    }
}

TEST(Reductions, KeepNaNInfinityAndEmptyRows) {
  Plugin plugin;
  const float nan = std::nanf("");
  const Tensor x = of({6, 3}, {1, nan, 3, -infinity, -infinity, -infinity, infinity, 0, 1, -infinity, 2, -infinity, nan, infinity, 1,
                               -infinity, nan, -infinity});
  const Tensor largest = make(QUERN_F32, {6}), lse = make(QUERN_F32, {6});
  ASSERT_EQ(run_node(plugin, QUERN_OP_MAX, {x}, {largest}).status, QUERN_OK);
  ASSERT_EQ(run_node(plugin, QUERN_OP_LOGSUMEXP, {x}, {lse}).status, QUERN_OK);
  for (const Tensor* y : {&largest, &lse}) {
    for (const std::size_t row : {0u, 4u, 5u}) EXPECT_TRUE(std::isnan(y->f32()[row]));
    EXPECT_EQ(y->f32()[1], -infinity);
    EXPECT_EQ(y->f32()[2], infinity);
    EXPECT_EQ(y->f32()[3], 2.0f);
  }
  const Tensor none = make(QUERN_F32, {2, 0}), sum = make(QUERN_F32, {1}), rows = make(QUERN_F32, {2, 1}), lse2 = make(QUERN_F32, {2});
  ASSERT_EQ(run_node(plugin, QUERN_OP_SUM, {none}, {sum}).status, QUERN_OK);
  ASSERT_EQ(run_node(plugin, QUERN_OP_SUM_ROWS, {none}, {rows}).status, QUERN_OK);
  ASSERT_EQ(run_node(plugin, QUERN_OP_LOGSUMEXP, {none}, {lse2}).status, QUERN_OK);
  EXPECT_EQ(sum.f32()[0], 0.0f);
  EXPECT_EQ(rows.floats(), (std::vector<float>{0, 0}));
  EXPECT_EQ(lse2.floats(), (std::vector<float>{-infinity, -infinity}));
}

TEST(CountEqual, CountsInSixtyFourBits) {
  Plugin plugin(3);
  std::vector<std::int32_t> a, b;
  std::int64_t equal = 0;
  for (int i = 0; i < 200 * 333; ++i) {
    a.push_back(i % 7 - 3);
    b.push_back(i % 5 - 3);
    equal += a.back() == b.back();
  }
  const Tensor count = make(QUERN_I64, {1});
  ASSERT_EQ(run_node(plugin, QUERN_OP_COUNT_EQUAL, {ints({200, 333}, a), ints({200, 333}, b)}, {count}).status, QUERN_OK);
  std::int64_t got = 0;
  std::memcpy(&got, count.raw().data(), 8);
  EXPECT_EQ(got, equal);
}

}  // namespace
}  // namespace quern::cpu_test
