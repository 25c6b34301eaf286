// Gradients of softmax and the norms against f64 formulas, which are held to central differences.
#include "gradient_check.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace quern::cpu_test {
namespace {

const float nan = std::nanf("");
const quern_dtype float_dtypes[] = {QUERN_F32, QUERN_F16, QUERN_BF16};
using Doubles = std::vector<double>;

Doubles softmax_slopes(const Doubles& y, const Doubles& dy, double scale) {
  Doubles dx(y.size());
  const double inner = dot(y, dy);
  for (std::size_t i = 0; i < y.size(); ++i) dx[i] = scale * y[i] * (dy[i] - inner);
  return dx;
}

TEST(SoftmaxBackward, MatchesF64OverAVocabulary) {
  for (const std::string& family : families())
    for (const quern_dtype dtype : float_dtypes)
      for (const std::size_t n : {std::size_t{1}, std::size_t{37}, std::size_t{50021}}) {
        Plugin plugin(2, {{"force_kernel", family}});
        const auto width = static_cast<std::int64_t>(n);
        const Tensor x = random_tensor(QUERN_F32, {2, width}, 8, 3.0), dy = random_tensor(dtype, {2, width}, 9),
                     dx = make(dtype, {2, width});
        std::vector<float> probabilities;
        for (std::size_t row = 0; row < 2; ++row) {
          double sum = 0;
          for (std::size_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x.f32()[row * n + i]));
          for (std::size_t i = 0; i < n; ++i)
            probabilities.push_back(static_cast<float>(std::exp(static_cast<double>(x.f32()[row * n + i])) / sum));
        }
        const Tensor p = of({2, width}, probabilities, dtype);
        ASSERT_EQ(run_node(plugin, QUERN_OP_SOFTMAX_BACKWARD, {p, dy}, {dx}, {{QUERN_KEY_SCALE, 0.3}}).status, QUERN_OK);
        const Doubles all = meaning(p), from = meaning(dy), got = meaning(dx);
        for (std::size_t row = 0; row < 2; ++row) {
          const Doubles mine(all.begin() + static_cast<std::ptrdiff_t>(row * n), all.begin() + static_cast<std::ptrdiff_t>((row + 1) * n));
          const Doubles gradient(from.begin() + static_cast<std::ptrdiff_t>(row * n),
                                 from.begin() + static_cast<std::ptrdiff_t>((row + 1) * n));
          const Doubles r = softmax_slopes(mine, gradient, 0.3);
          double size = 0;
          for (std::size_t i = 0; i < n; ++i) size += std::fabs(mine[i] * gradient[i]);
          for (std::size_t i = 0; i < n; ++i) {
            // The sum of n products shifts dy; then four roundings.
            const double bound = 0.3 * mine[i] * (accumulation(n) * size + 5 * u * (std::fabs(gradient[i]) + size));
            ASSERT_LE(std::fabs(got[row * n + i] - r[i]), bound + out_error(dtype, r[i])) << family << " n " << n;
          }
        }
      }
}

TEST(SoftmaxBackward, OfAHiddenElementIsZeroAndTheFormulaIsTheSlope) {
  Plugin plugin;
  const Tensor y = of({2, 3}, {0.25f, 0, 0.75f, 0, 0, 0}), dy = of({2, 3}, {1, 1e30f, 3, 5, 5, 5}), dx = make(QUERN_F32, {2, 3});
  ASSERT_EQ(run_node(plugin, QUERN_OP_SOFTMAX_BACKWARD, {y, dy}, {dx}).status, QUERN_OK);
  EXPECT_EQ(std::vector<float>(dx.f32().begin(), dx.f32().begin() + 6), (std::vector<float>{-0.375f, 0, 0.375f, 0, 0, 0}));
  const Doubles x = {0.3, -1, 2, 0.1}, weight = {1, -2, 0.5, 3};
  const auto softmax = [](const Doubles& at) {
    Doubles p;
    double sum = 0;
    for (const double v : at) sum += std::exp(0.7 * v);
    for (const double v : at) p.push_back(std::exp(0.7 * v) / sum);
    return p;
  };
  const Doubles r = softmax_slopes(softmax(x), weight, 0.7);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(slope_at(x, i, [&](const Doubles& at) { return dot(softmax(at), weight); }), r[i], 1e-9);
}

struct NormSlopes {
  Doubles dx, dweight, dbias, dx_size, dweight_size;  // sizes: the sums of the sizes of the terms
};
enum Norm { rms, layer, l2 };
/// Of one row; dweight and dbias are this row's parts.
NormSlopes norm_slopes(Norm norm, const Doubles& x, const Doubles& weight, const Doubles& dy, double epsilon) {
  const std::size_t n = x.size();
  const auto count = static_cast<double>(n);
  double mean = 0, squares = 0, inner = 0, sum = 0, inner_size = 0, sum_size = 0;
  if (norm == layer)
    for (const double v : x) mean += v / count;
  for (const double v : x) squares += (v - mean) * (v - mean);
  const bool still = norm == l2 && std::sqrt(squares) < epsilon;
  const double inverse = norm == l2 ? 1 / (still ? epsilon : std::sqrt(squares)) : 1 / std::sqrt(squares / count + epsilon);
  for (std::size_t i = 0; i < n; ++i) {
    inner += weight[i] * dy[i] * (x[i] - mean), inner_size += std::fabs(weight[i] * dy[i] * (x[i] - mean));
    sum += weight[i] * dy[i], sum_size += std::fabs(weight[i] * dy[i]);
  }
  const double part = still ? 0 : norm == l2 ? 1 : 1 / count;
  NormSlopes s;
  for (std::size_t i = 0; i < n; ++i) {
    const double c = x[i] - mean, g = weight[i] * dy[i];
    s.dx.push_back(inverse * (g - (norm == layer ? sum / count : 0)) - c * inverse * inverse * inverse * inner * part);
    s.dx_size.push_back(inverse * (std::fabs(g) + (norm == layer ? sum_size / count : 0)) +
                        std::fabs(c) * inverse * inverse * inverse * inner_size * part);
    s.dweight.push_back(dy[i] * c * inverse);
    s.dweight_size.push_back(std::fabs(dy[i]) * (std::fabs(x[i]) + std::fabs(mean)) * inverse);
    s.dbias.push_back(dy[i]);
  }
  return s;
}
Doubles norm_of(Norm norm, const Doubles& x, const Doubles& weight, double epsilon) {
  const auto count = static_cast<double>(x.size());
  double mean = 0, squares = 0;
  if (norm == layer)
    for (const double v : x) mean += v / count;
  for (const double v : x) squares += (v - mean) * (v - mean);
  const double divisor = norm == l2 ? std::max(std::sqrt(squares), epsilon) : std::sqrt(squares / count + epsilon);
  Doubles y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(weight[i] * (x[i] - mean) / divisor);
  return y;
}

TEST(NormBackward, TheFormulasAreTheSlopes) {
  const Doubles x = {0.5, -1.5, 2, 0.25, -0.75}, weight = {1, 2, -1, 0.5, 3}, dy = {1, -1, 0.5, 2, 1}, ones(5, 1.0);
  for (const Norm norm : {rms, layer, l2})
    for (const double epsilon : {0.1, 100.0}) {
      const Doubles& w = norm == l2 ? ones : weight;
      const NormSlopes s = norm_slopes(norm, x, w, dy, epsilon);
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_NEAR(slope_at(x, i, [&](const Doubles& at) { return dot(norm_of(norm, at, w, epsilon), dy); }), s.dx[i], 1e-9) << norm;
        if (norm == l2) continue;
        EXPECT_NEAR(slope_at(w, i, [&](const Doubles& at) { return dot(norm_of(norm, x, at, epsilon), dy); }), s.dweight[i], 1e-9) << norm;
      }
    }
}

TEST(NormBackward, MatchesF64InEveryDtypeWithAndWithoutAWeight) {
  for (const std::string& family : families())
    for (const quern_dtype dtype : float_dtypes)
      for (const Norm norm : {rms, layer, l2})
        for (const std::int64_t n : {1, 31, 576, 2050})
          for (const bool weighted : {false, true}) {
            if (norm == l2 && weighted) continue;
            constexpr std::size_t rows = 150;  // more than two blocks of rows
            Plugin plugin(3, {{"force_kernel", family}});
            const Tensor x = random_tensor(dtype, {3, rows / 3, n}, 10, 2.0), dy = random_tensor(dtype, x.dims, 11),
                         w = random_tensor(QUERN_F32, {n}, 12), dx = make(dtype, x.dims);
            const Tensor dweight = make(QUERN_F32, {n}), dbias = make(QUERN_F32, {n});
            const double epsilon = 1e-3, offset = norm == rms && weighted ? 1.0 : 0.0;
            std::vector<Attribute> attributes = {{QUERN_KEY_EPSILON, epsilon}};
            if (offset != 0) attributes.push_back({QUERN_KEY_WEIGHT_OFFSET, offset});
            const Tensor weight = weighted ? w : absent(), sum = weighted ? dweight : absent();
            Outcome outcome;
            if (norm == l2) outcome = run_node(plugin, QUERN_OP_L2_NORM_BACKWARD, {x, dy}, {dx}, attributes);
            if (norm == rms) outcome = run_node(plugin, QUERN_OP_RMS_NORM_BACKWARD, {x, weight, dy}, {dx, sum}, attributes);
            if (norm == layer) outcome = run_node(plugin, QUERN_OP_LAYER_NORM_BACKWARD, {x, weight, dy}, {dx, sum, dbias}, attributes);
            ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
            const Doubles all = meaning(x), from = meaning(dy), got = meaning(dx);
            const auto count = static_cast<std::size_t>(n);
            Doubles factors(count, 1.0), of_weight(count, 0.0), of_bias(count, 0.0), weight_size(count, 0.0), bias_size(count, 0.0);
            for (std::size_t i = 0; weighted && i < count; ++i) factors[i] = static_cast<double>(w.f32()[i]) + offset;
            for (std::size_t row = 0; row < rows; ++row) {
              const auto begin = static_cast<std::ptrdiff_t>(row * count), end = static_cast<std::ptrdiff_t>((row + 1) * count);
              const NormSlopes s =
                  norm_slopes(norm, {all.begin() + begin, all.begin() + end}, factors, {from.begin() + begin, from.begin() + end},
                              static_cast<double>(static_cast<float>(epsilon)));
              for (std::size_t i = 0; i < count; ++i) {
                // Three sums of n in a term (the root, cubed, counts one and a half times), and the factors of each.
                ASSERT_LE(std::fabs(got[row * count + i] - s.dx[i]), 3 * accumulation(count) * s.dx_size[i] + out_error(dtype, s.dx[i]))
                    << family << " norm " << norm << " n " << n << " row " << row;
                of_weight[i] += s.dweight[i], weight_size[i] += s.dweight_size[i], of_bias[i] += s.dbias[i],
                    bias_size[i] += std::fabs(s.dbias[i]);
              }
            }
            for (std::size_t i = 0; norm != l2 && i < count; ++i) {
              if (weighted) {
                ASSERT_LE(std::fabs(static_cast<double>(dweight.f32()[i]) - of_weight[i]),
                          (accumulation(rows) + accumulation(count)) * weight_size[i] + 0x1p-140)
                    << "dweight";
              }
              if (norm == layer) {
                ASSERT_LE(std::fabs(static_cast<double>(dbias.f32()[i]) - of_bias[i]), accumulation(rows) * bias_size[i]) << "dbias";
              }
            }
          }
}

TEST(NormBackward, AccumulatesSkipsDeadRowsAndGivesTheSameBitsForAnyThreads) {
  Plugin one(1), four(4);
  const Tensor x = random_tensor(QUERN_F32, {70, 130}, 13), dy = random_tensor(QUERN_F32, {70, 130}, 14),
               w = random_tensor(QUERN_F32, {130}, 15);
  Tensor live = make(QUERN_I32, {70});
  for (std::size_t i = 0; i < 70; ++i) live.integers()[i] = i != 5;
  const Tensor poisoned = random_tensor(QUERN_F32, {70, 130}, 13);
  poisoned.f32()[5 * 130 + 7] = nan;
  for (const std::uint32_t op : {QUERN_OP_RMS_NORM_BACKWARD, QUERN_OP_LAYER_NORM_BACKWARD}) {
    Tensor sums[2], dx[2];
    for (const int t : {0, 1}) {
      sums[t] = make(QUERN_F32, {130}, QUERN_VALUE_STATE);
      std::fill_n(sums[t].f32().begin(), 130, 100.0f);
      dx[t] = make(QUERN_F32, {70, 130});
      std::memset(dx[t].raw().data(), 0, dx[t].bytes());
      std::vector<Tensor> outputs = {dx[t], sums[t]};
      const Outcome outcome = run_node(t == 0 ? one : four, op, {poisoned, w, dy}, outputs,
                                       {{QUERN_KEY_EPSILON, 1e-5}, {QUERN_KEY_ACCUMULATE, 1}}, nullptr, live);
      ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
    }
    EXPECT_EQ(std::memcmp(sums[0].raw().data(), sums[1].raw().data(), 520), 0);
    EXPECT_EQ(std::memcmp(dx[0].raw().data(), dx[1].raw().data(), dx[0].bytes()), 0);
    for (std::size_t i = 0; i < 130; ++i) {
      EXPECT_EQ(dx[0].f32()[5 * 130 + i], 0.0f);
      EXPECT_NEAR(sums[0].f32()[i], 100.0f, 50.0f);  // 70 numbers of size 1
      EXPECT_NE(sums[0].f32()[i], 100.0f);
    }
  }
  const Outcome refused = run_node(one, QUERN_OP_RMS_NORM_BACKWARD, {x, absent(), dy}, {make(QUERN_F32, {70, 130}), make(QUERN_F32, {130})},
                                   {{QUERN_KEY_EPSILON, 1e-5}});
  EXPECT_NE(refused.text.find("dweight is wanted but there is no weight"), std::string::npos) << refused.text;
}

TEST(NormBackward, RunsInPlaceAndKeepsANaNInItsRow) {
  Plugin plugin(2);
  for (const std::uint32_t op : {QUERN_OP_RMS_NORM_BACKWARD, QUERN_OP_LAYER_NORM_BACKWARD, QUERN_OP_L2_NORM_BACKWARD}) {
    const bool weighted = op != QUERN_OP_L2_NORM_BACKWARD;
    const Tensor dy = random_tensor(QUERN_F32, {6, 33}, 16), w = random_tensor(QUERN_F32, {33}, 17), dx = make(QUERN_F32, {6, 33}),
                 dweight = make(QUERN_F32, {33}), again = make(QUERN_F32, {33});
    Tensor x = random_tensor(QUERN_F32, {6, 33}, 18);
    const auto inputs = [&] { return weighted ? std::vector<Tensor>{x, w, dy} : std::vector<Tensor>{x, dy}; };
    ASSERT_EQ(run_node(plugin, op, inputs(), weighted ? std::vector<Tensor>{dx, dweight} : std::vector<Tensor>{dx},
                       {{QUERN_KEY_EPSILON, 1e-5}})
                  .status,
              QUERN_OK);
    x.kind = QUERN_VALUE_STATE;
    GraphSpec graph;
    const std::uint32_t state = graph.add(x), gradient = graph.add(dy);
    Tensor sum = again;
    sum.kind = QUERN_VALUE_OUTPUT;
    if (weighted) graph.nodes.push_back({op, {state, graph.add(w), gradient}, {state, graph.add(sum)}, {{QUERN_KEY_EPSILON, 1e-5}}});
    else graph.nodes.push_back({op, {state, gradient}, {state}, {{QUERN_KEY_EPSILON, 1e-5}}});
    const Outcome outcome = plugin.run(graph);
    ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
    EXPECT_EQ(std::memcmp(x.raw().data(), dx.raw().data(), dx.bytes()), 0);
    if (weighted) { EXPECT_EQ(std::memcmp(again.raw().data(), dweight.raw().data(), 132), 0); }
    const std::vector<float> clean(dx.f32().begin(), dx.f32().begin() + 6 * 33);
    x = random_tensor(QUERN_F32, {6, 33}, 18);
    x.f32()[40] = nan;
    ASSERT_EQ(run_node(plugin, op, inputs(), {dx}, {{QUERN_KEY_EPSILON, 1e-5}}).status, QUERN_OK);
    for (std::size_t i = 0; i < 33; ++i) EXPECT_TRUE(std::isnan(dx.f32()[33 + i]));
    EXPECT_EQ(std::memcmp(dx.f32().data(), clean.data(), 33 * 4), 0);
    EXPECT_EQ(std::memcmp(dx.f32().data() + 66, clean.data() + 66, 4 * 33 * 4), 0);
  }
}

}  // namespace
}  // namespace quern::cpu_test
