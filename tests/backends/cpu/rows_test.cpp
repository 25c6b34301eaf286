// Norms, activations, rope, softmax and elementwise ops against f64, with their edge cases.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace quern::cpu_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr double u = 0x1p-24;

class EveryFamily : public ::testing::TestWithParam<std::string> {
 protected:
  Plugin plugin_{2, {{"force_kernel", GetParam()}}};
};
INSTANTIATE_TEST_SUITE_P(Rows, EveryFamily, ::testing::ValuesIn(families()), [](const auto& family) { return family.param; });

TEST_P(EveryFamily, RmsNormMatchesF64) {
  for (const std::int64_t n : {1, 15, 64, 576, 11008}) {
    const Tensor x = random_tensor(QUERN_F32, {3, n}, 1), w = random_tensor(QUERN_F32, {n}, 2), y = make(QUERN_F32, {3, n});
    ASSERT_EQ(run_node(plugin_, QUERN_OP_RMS_NORM, {x, w}, {y}, {{QUERN_KEY_EPSILON, 1e-5}}).status, QUERN_OK);
    for (std::int64_t r = 0; r < 3; ++r) {
      double squares = 0;
      for (std::int64_t i = 0; i < n; ++i) squares += std::pow(static_cast<double>(x.f32()[static_cast<std::size_t>(r * n + i)]), 2);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(1e-5f));
      for (std::int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(r * n + i);
        const double exact = static_cast<double>(x.f32()[at]) * scale * static_cast<double>(w.f32()[static_cast<std::size_t>(i)]);
        ASSERT_LE(std::fabs(static_cast<double>(y.f32()[at]) - exact),
                  (2 * std::sqrt(static_cast<double>(n)) + 8) * u * std::fabs(exact) + 1e-45);
      }
    }
  }
}

TEST_P(EveryFamily, RmsNormOfZerosIsZeroAndOfLargeHalvesIsFinite) {
  const Tensor zero = of({1, 32}, std::vector<float>(32, 0.0f)), y = make(QUERN_F32, {1, 32});
  ASSERT_EQ(run_node(plugin_, QUERN_OP_RMS_NORM, {zero, absent()}, {y}, {{QUERN_KEY_EPSILON, 1e-6}}).status, QUERN_OK);
  for (const float v : y.f32().first(32)) EXPECT_EQ(v, 0.0f);
  const Tensor large = of({1, 32}, std::vector<float>(32, 65504.0f), QUERN_F16), z = make(QUERN_F16, {1, 32});
  ASSERT_EQ(run_node(plugin_, QUERN_OP_RMS_NORM, {large}, {z}, {{QUERN_KEY_EPSILON, 1e-6}}).status, QUERN_OK);
  for (const double v : meaning(z)) EXPECT_EQ(v, 1.0);
}

TEST_P(EveryFamily, SiluAndGluMatchF64AndKeepTheirEdges) {
  std::vector<float> values = {-infinity, infinity, std::nanf(""), -100.0f, -88.8f, -1e-30f, 0.0f, 1e-30f, 88.8f, 1e30f};
  for (int i = 0; i < 500; ++i) values.push_back(-25.0f + 0.1f * static_cast<float>(i));
  const auto n = static_cast<std::int64_t>(values.size());
  const Tensor x = of({1, n}, values), y = make(QUERN_F32, {1, n}), up = random_tensor(QUERN_F32, {1, n}, 3), z = make(QUERN_F32, {1, n});
  ASSERT_EQ(run_node(plugin_, QUERN_OP_SILU, {x}, {y}).status, QUERN_OK);
  ASSERT_EQ(run_node(plugin_, QUERN_OP_GLU, {x, up}, {z}).status, QUERN_OK);
  EXPECT_EQ(y.f32()[0], 0.0f);
  EXPECT_TRUE(std::signbit(y.f32()[0]));
  EXPECT_EQ(y.f32()[1], infinity);
  EXPECT_TRUE(std::isnan(y.f32()[2]));
  for (std::size_t i = 3; i < values.size(); ++i) {
    const double v = static_cast<double>(values[i]), exact = v / (1 + std::exp(-v));
    const double bound = (8 + 2 * std::min(std::fabs(v), 100.0)) * 2 * u * std::fabs(exact) + std::fabs(v) * 0x1p-100;
    EXPECT_LE(std::fabs(static_cast<double>(y.f32()[i]) - exact), bound) << values[i];
    const double product = exact * static_cast<double>(up.f32()[i]);
    EXPECT_LE(std::fabs(static_cast<double>(z.f32()[i]) - product),
              bound * std::fabs(static_cast<double>(up.f32()[i])) + 2 * u * std::fabs(product))
        << values[i];
  }
}

TEST_P(EveryFamily, SoftmaxOfAVocabularyKeepsItsAccuracy) {
  constexpr std::int64_t n = 151936;
  const Tensor x = random_tensor(QUERN_F32, {1, n}, 4, 4.0), y = make(QUERN_F32, {1, n});
  ASSERT_EQ(run_node(plugin_, QUERN_OP_SOFTMAX, {x}, {y}).status, QUERN_OK);
  double largest = -1e30, sum = 0;
  for (const float v : x.f32().first(n)) largest = std::max(largest, static_cast<double>(v));
  for (const float v : x.f32().first(n)) sum += std::exp(static_cast<double>(v) - largest);
  for (std::size_t i = 0; i < n; ++i) {
    const double distance = largest - static_cast<double>(x.f32()[i]), exact = std::exp(-distance) / sum;
    ASSERT_LE(std::fabs(static_cast<double>(y.f32()[i]) - exact),
              (4 * std::sqrt(static_cast<double>(n)) + 32 + 2 * distance) * u * exact + 1e-44);
  }
}

TEST_P(EveryFamily, SoftmaxHidesWhatCausalityAndMaskHide) {
  // Two heads of 2 x 4; poison sits where nothing may look.
  const Tensor x = of({2, 2, 4}, {0, 0, 0, 1000, 0, 0, 0, 0, 1, 2, 1000, 1000, 0, 0, 0, 0});
  const Tensor mask = of({2, 4}, {0, -infinity, 0, 0, -infinity, -infinity, -infinity, -infinity}), y = make(QUERN_F32, {2, 2, 4});
  ASSERT_EQ(run_node(plugin_, QUERN_OP_SOFTMAX, {x, mask}, {y}, {{QUERN_KEY_CAUSAL, 1}, {QUERN_KEY_QUERY_OFFSET, 1}}).status, QUERN_OK);
  EXPECT_EQ(y.floats(), (std::vector<float>{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}));
}

TEST_P(EveryFamily, SoftmaxTakesAnyQueryOffsetWithoutOverflow) {
  const Tensor x = of({2, 3}, {0, 0, 0, 0, 0, 0}), y = make(QUERN_F32, {2, 3});
  constexpr double most = 9223372036854774784.0;  // the largest f64 below 2^63, for the harness
  const std::vector<float> all(6, 1.0f / 3.0f), none(6, 0.0f);
  const auto run = [&](double offset, double window) {
    const std::vector<Attribute> attributes = {{QUERN_KEY_CAUSAL, 1}, {QUERN_KEY_QUERY_OFFSET, offset}, {QUERN_KEY_WINDOW, window}};
    EXPECT_EQ(run_node(plugin_, QUERN_OP_SOFTMAX, {x}, {y}, attributes).status, QUERN_OK);
    return y.floats();
  };
  EXPECT_EQ(run(most, 0), all);
  EXPECT_EQ(run(most, 5), none);                                             // the window is far behind the last key
  EXPECT_EQ(run(most, most), (std::vector<float>{0, 0.5f, 0.5f, 0, 0, 1}));  // query q sees keys above q
  EXPECT_EQ(run(-most, 0), none);
  EXPECT_EQ(run(-most - 1024, most), none);  // -2^63
  EXPECT_EQ(run(2, most), all);
}

TEST_P(EveryFamily, ASinkTakesMassOnly) {
  const Tensor x = of({1, 1, 2}, {0, 0}), y = make(QUERN_F32, {1, 1, 2});
  ASSERT_EQ(run_node(plugin_, QUERN_OP_SOFTMAX, {x, absent(), of({1}, {std::log(2.0f)})}, {y}).status, QUERN_OK);
  EXPECT_NEAR(y.f32()[0], 0.25f, 1e-7f);
  EXPECT_NEAR(y.f32()[1], 0.25f, 1e-7f);
}

TEST_P(EveryFamily, ArgmaxTakesTheLowestOfEqualsAndIgnoresNaN) {
  const Tensor x = of({4, 5}, {1,         3,  3,  2,  0,  std::nanf(""), 1, 2, 2, 1, -infinity, std::nanf(""), -infinity, -infinity,
                               -infinity, -5, -4, -6, -4, -infinity});
  const Tensor y = make(QUERN_I32, {4});
  ASSERT_EQ(run_node(plugin_, QUERN_OP_ARGMAX, {x}, {y}).status, QUERN_OK);
  EXPECT_EQ((std::vector<std::int32_t>(y.integers().begin(), y.integers().begin() + 4)), (std::vector<std::int32_t>{1, 2, 0, 1}));
}

TEST(Rope, TurnsPairsByTheTableInBothLayoutsAndBack) {
  Plugin plugin(2);
  const Tensor table = make(QUERN_F32, {3, 2, 2});
  ASSERT_EQ(run_node(plugin, QUERN_OP_ROPE_TABLE, {absent()}, {table}, {{QUERN_KEY_BASE, 100.0}}).status, QUERN_OK);
  for (int p = 0; p < 3; ++p)
    for (int i = 0; i < 2; ++i) {
      const double angle = p * std::pow(100.0, -i / 2.0);
      EXPECT_EQ(table.f32()[static_cast<std::size_t>(p * 4 + i * 2)], static_cast<float>(std::cos(angle)));
      EXPECT_EQ(table.f32()[static_cast<std::size_t>(p * 4 + i * 2 + 1)], static_cast<float>(std::sin(angle)));
    }
  const Tensor x = random_tensor(QUERN_F32, {3, 2, 5}, 5), position = ints({3}, {2, 0, 1});
  for (const int mode : {0, 1}) {
    const Tensor y = make(QUERN_F32, {3, 2, 5}), back = make(QUERN_F32, {3, 2, 5});
    ASSERT_EQ(run_node(plugin, QUERN_OP_ROPE, {x, position, table}, {y}, {{QUERN_KEY_MODE, static_cast<double>(mode)}}).status, QUERN_OK);
    ASSERT_EQ(run_node(plugin, QUERN_OP_ROPE, {y, position, table}, {back},
                       {{QUERN_KEY_MODE, static_cast<double>(mode)}, {QUERN_KEY_INVERSE, 1}})
                  .status,
              QUERN_OK);
    for (std::size_t t = 0; t < 3; ++t)
      for (std::size_t h = 0; h < 2; ++h) {
        const float *from = x.f32().data() + (t * 2 + h) * 5, *to = y.f32().data() + (t * 2 + h) * 5;
        const float* row = table.f32().data() + position.integers()[t] * 4;
        for (std::size_t i = 0; i < 2; ++i) {
          const std::size_t a = mode == 0 ? 2 * i : i, b = mode == 0 ? 2 * i + 1 : i + 2;
          EXPECT_NEAR(to[a], from[a] * row[2 * i] - from[b] * row[2 * i + 1], 4 * u * (std::fabs(from[a]) + std::fabs(from[b])));
          EXPECT_NEAR(to[b], from[a] * row[2 * i + 1] + from[b] * row[2 * i], 4 * u * (std::fabs(from[a]) + std::fabs(from[b])));
        }
        EXPECT_EQ(to[4], from[4]);
      }
    for (std::size_t i = 0; i < 30; ++i) EXPECT_NEAR(back.f32()[i], x.f32()[i], 1e-6f);
  }
}

TEST(Rope, APositionOutsideTheTableGivesZerosAndAFault) {
  Plugin plugin;
  const Tensor x = random_tensor(QUERN_F32, {2, 1, 4}, 6), table = of({1, 2, 2}, {1, 0, 1, 0}), y = make(QUERN_F32, {2, 1, 4});
  const Outcome outcome = run_node(plugin, QUERN_OP_ROPE, {x, ints({2}, {1, 0}), table}, {y});
  EXPECT_EQ(outcome.faults, QUERN_FAULT_INDEX_RANGE);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(y.f32()[i], 0.0f);
    EXPECT_EQ(y.f32()[4 + i], x.f32()[4 + i]);
  }
}

TEST(RopeTable, DynamicScalingGrowsWithTheNumberOfPositions) {
  Plugin plugin;
  const std::vector<Attribute> attributes = {
      {QUERN_KEY_BASE, 10000.0}, {QUERN_KEY_SCALING, 5}, {QUERN_KEY_FACTOR, 2.0}, {QUERN_KEY_ORIGINAL_CONTEXT, 4}};
  const auto expect = [&](const Tensor& count, double factor, std::size_t rows) {
    const Tensor table = make(QUERN_F32, {16, 4, 2});
    ASSERT_EQ(run_node(plugin, QUERN_OP_ROPE_TABLE, {count}, {table}, attributes).status, QUERN_OK);
    for (std::size_t p = 0; p < rows; ++p)
      for (std::size_t i = 0; i < 4; ++i) {
        const double angle = static_cast<double>(p) * std::pow(10000.0 * std::pow(factor, 8.0 / 6.0), -static_cast<double>(i) / 4);
        EXPECT_NEAR(table.f32()[p * 8 + i * 2], std::cos(angle), u) << p << ' ' << i;
        EXPECT_NEAR(table.f32()[p * 8 + i * 2 + 1], std::sin(angle), u) << p << ' ' << i;
      }
  };
  expect(ints({1}, {3}), 1, 3);    // inside the original context: as without scaling
  expect(ints({1}, {12}), 5, 12);  // 2 * 12 / 4 - 2 + 1
  expect(absent(), 7, 16);         // all rows are wanted: 2 * 16 / 4 - 2 + 1
  const Outcome refused = run_node(plugin, QUERN_OP_ROPE_TABLE, {}, {make(QUERN_F32, {16, 4, 2})}, {{QUERN_KEY_SCALING, 5}});
  EXPECT_EQ(refused.status, QUERN_INVALID_ARGUMENT);
}

TEST(AddRmsNorm, RunsWholeWithItsBodyInTheGraph) {
  Plugin plugin(2);
  const Tensor a = random_tensor(QUERN_F32, {3, 64}, 7), b = random_tensor(QUERN_F32, {3, 64}, 8), w = random_tensor(QUERN_F32, {64}, 9);
  const std::vector<Attribute> epsilon = {{QUERN_KEY_EPSILON, 1e-5}};
  const auto make_graph = [&](GraphSpec& graph, std::uint32_t kind) {
    std::vector<std::uint32_t> ids;
    for (const Tensor& t : {a, b, w, make(QUERN_F32, {3, 64}, kind), make(QUERN_F32, {3, 64}, kind)}) ids.push_back(graph.add(t));
    return ids;
  };
  GraphSpec body, whole, parts;
  std::vector<std::uint32_t> v = make_graph(body, QUERN_VALUE_OUTPUT);
  body.nodes = {{QUERN_OP_ADD, {v[0], v[1]}, {v[3]}}, {QUERN_OP_RMS_NORM, {v[3], v[2]}, {v[4]}, epsilon}};
  make_graph(parts, QUERN_VALUE_OUTPUT);
  parts.nodes = body.nodes;
  make_graph(whole, QUERN_VALUE_OUTPUT);
  whole.nodes = {
      {.op = QUERN_OP_ADD_RMS_NORM, .inputs = {v[0], v[1], v[2]}, .outputs = {v[3], v[4]}, .attributes = epsilon, .body = body.build()}};
  std::string kernel;
  const Outcome outcome = plugin.run(whole, {}, &kernel);
  ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
  EXPECT_EQ(kernel.rfind("add_rms_norm.", 0), 0u) << kernel;
  ASSERT_EQ(plugin.run(parts).status, QUERN_OK);
  for (const std::uint32_t id : {v[3], v[4]}) EXPECT_EQ(whole.values[id].floats(), parts.values[id].floats());
  // Any other composite is answered no, so that the host runs the nodes of its body.
  GraphSpec other;
  make_graph(other, QUERN_VALUE_OUTPUT);
  other.nodes = {{.op = QUERN_OP_ADD, .inputs = {v[0], v[1]}, .outputs = {v[3]}, .body = body.build()},
                 {.op = QUERN_OP_ADD, .inputs = {v[0], v[1]}, .outputs = {v[4]}}};
  const Outcome refused = plugin.run(other);
  EXPECT_EQ(refused.status, QUERN_UNSUPPORTED);
  EXPECT_NE(refused.text.find("add is a composite"), std::string::npos) << refused.text;
}

TEST(RopeTable, Llama3ScalesSlowPairsAndKeepsFastOnes) {
  Plugin plugin;
  const Tensor table = make(QUERN_F32, {2, 32, 2});
  const std::vector<Attribute> attributes = {
      {QUERN_KEY_BASE, 500000.0}, {QUERN_KEY_SCALING, 3}, {QUERN_KEY_FACTOR, 8.0}, {QUERN_KEY_ORIGINAL_CONTEXT, 8192}};
  ASSERT_EQ(run_node(plugin, QUERN_OP_ROPE_TABLE, {}, {table}, attributes).status, QUERN_OK);
  EXPECT_EQ(table.f32()[65], static_cast<float>(std::sin(1.0)));  // pair 0: one turn in 6 positions
  const double slow = std::pow(500000.0, -62.0 / 64.0);
  EXPECT_EQ(table.f32()[64 + 63], static_cast<float>(std::sin(slow / 8)));
}

TEST(Copy, MovesBetweenStridedViewsOfAnyDtype) {
  Plugin plugin(2);
  GraphSpec graph;  // y = transpose of x, written through a view of y
  Tensor x = ints({2, 3}, {1, 2, 3, 4, 5, 6}), y = make(QUERN_I32, {3, 2}, QUERN_VALUE_OUTPUT);
  Tensor view = make(QUERN_I32, {2, 3}, QUERN_VALUE_OUTPUT);
  view.strides = {4, 8};
  const std::uint32_t xi = graph.add(x), yi = graph.add(y);
  view.alias_of = yi;
  const std::uint32_t vi = graph.add(view);
  graph.nodes.push_back({QUERN_OP_COPY, {xi}, {vi}});
  const Outcome outcome = plugin.run(graph);
  ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
  EXPECT_EQ((std::vector<std::int32_t>(y.integers().begin(), y.integers().begin() + 6)), (std::vector<std::int32_t>{1, 4, 2, 5, 3, 6}));
}

TEST(Elementwise, BroadcastsRowsColumnsAndLeadingDims) {
  Plugin plugin(2);
  const Tensor a = of({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), y = make(QUERN_F32, {2, 2, 2});
  ASSERT_EQ(run_node(plugin, QUERN_OP_ADD, {a, of({2}, {10, 20})}, {y}, {{QUERN_KEY_ALPHA, 2.0}}).status, QUERN_OK);
  EXPECT_EQ(y.floats(), (std::vector<float>{21, 42, 23, 44, 25, 46, 27, 48}));
  ASSERT_EQ(run_node(plugin, QUERN_OP_MUL, {a, of({2, 1, 1}, {1, -1})}, {y}).status, QUERN_OK);
  EXPECT_EQ(y.floats(), (std::vector<float>{1, 2, 3, 4, -5, -6, -7, -8}));
  ASSERT_EQ(run_node(plugin, QUERN_OP_MUL, {a, of({2, 1}, {0, 1})}, {y}).status, QUERN_OK);
  EXPECT_EQ(y.floats(), (std::vector<float>{0, 0, 3, 4, 0, 0, 7, 8}));
}

TEST(Elementwise, ScaleKeepsMinusZero) {
  Plugin plugin;
  const Tensor y = make(QUERN_F32, {2});
  ASSERT_EQ(run_node(plugin, QUERN_OP_SCALE, {of({2}, {-0.0f, 3.0f})}, {y}, {{QUERN_KEY_ALPHA, 2.0}}).status, QUERN_OK);
  EXPECT_TRUE(std::signbit(y.f32()[0]));
  EXPECT_EQ(y.f32()[1], 6.0f);
}

}  // namespace
}  // namespace quern::cpu_test
