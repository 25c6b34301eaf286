// Ops on single elements and running sums against f64, with their edge cases, in every float dtype and over strided views.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <ostream>

namespace quern::cpu_test {
namespace {

constexpr double u = 0x1p-24;
constexpr float infinity = std::numeric_limits<float>::infinity();

/// Rounding to the dtype of the output: half an ulp, and half the smallest subnormal.
double out_error(quern_dtype dtype, double r) {
  const double unit = dtype == QUERN_F16    ? 0x1p-11
                      : dtype == QUERN_BF16 ? 0x1p-8
                                            : u,
               tiny = dtype == QUERN_F16    ? 0x1p-25
                      : dtype == QUERN_BF16 ? 0x1p-134
                                            : 0x1p-150;
  return unit * std::fabs(r) * (1 + 0x1p-4) + tiny;
}

struct Unary {
  const char* name;
  std::uint32_t op;
  std::vector<Attribute> attributes;
  std::function<double(double)> exact;
  std::function<double(double x, double r)> slack;  // beyond the rounding of the output
};

std::ostream& operator<<(std::ostream& out, const Unary& one) { return out << one.name; }

double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double none(double, double) { return 0; }
double gelu_slack(double x, double) { return 16 * u * std::fabs(x); }
/// (8 + 2|x|) ulp, an ulp being at most 2 u |r|, and the floor of conformance for results below the smallest float.
double exp_slack(double x, double r) { return (8 + 2 * std::fabs(x)) * 2 * u * std::fabs(r) + std::fabs(x) * 0x1p-100; }

const Unary unary[] = {
    {"neg", QUERN_OP_NEG, {}, [](double x) { return -x; }, none},
    {"sqr", QUERN_OP_SQR, {}, [](double x) { return x * x; }, none},
    {"sqrt", QUERN_OP_SQRT, {}, [](double x) { return std::sqrt(x); }, none},
    {"abs", QUERN_OP_ABS, {}, [](double x) { return std::fabs(x); }, none},
    {"clamp",
     QUERN_OP_CLAMP,
     {{QUERN_KEY_MIN, -1.5}, {QUERN_KEY_MAX, 2.0}},
     [](double x) { return std::min(std::max(x, -1.5), 2.0); },
     none},
    {"relu", QUERN_OP_RELU, {}, [](double x) { return std::max(x, 0.0); }, none},
    {"relu_sqr", QUERN_OP_RELU_SQR, {}, [](double x) { return x > 0 ? x * x : 0; }, none},
    {"sigmoid", QUERN_OP_SIGMOID, {}, sigmoid, exp_slack},
    {"tanh",
     QUERN_OP_TANH,
     {},
     [](double x) { return std::tanh(x); },
     [](double, double r) { return 4 * u * std::fabs(r); }},  // 2 ulp of the C library
    {"gelu", QUERN_OP_GELU, {}, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, gelu_slack},
    {"gelu_tanh", QUERN_OP_GELU, {{QUERN_KEY_KIND, 1}}, gelu_tanh, gelu_slack},
    {"gelu_quick",
     QUERN_OP_GELU,
     {{QUERN_KEY_KIND, 2}},
     [](double x) { return x * sigmoid(1.702 * x); },
     [](double x, double r) { return exp_slack(1.702 * x, r); }},
};

class UnaryOp : public ::testing::TestWithParam<Unary> {};
INSTANTIATE_TEST_SUITE_P(Elements, UnaryOp, ::testing::ValuesIn(unary), [](const auto& one) { return one.param.name; });

TEST_P(UnaryOp, MatchesF64InEveryDtype) {
  Plugin plugin(2);
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16}) {
    const Tensor x = random_tensor(dtype, {5, 700}, 1, 4.0), y = make(dtype, {5, 700});
    const Outcome outcome = run_node(plugin, GetParam().op, {x}, {y}, GetParam().attributes);
    ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
    const std::vector<double> from = meaning(x), to = meaning(y);
    for (std::size_t i = 0; i < from.size(); ++i) {
      const double r = GetParam().exact(from[i]);
      if (std::isnan(r)) ASSERT_TRUE(std::isnan(to[i])) << from[i];
      else
        ASSERT_LE(std::fabs(to[i] - r), GetParam().slack(from[i], r) + out_error(dtype, r))
            << from[i] << " gives " << to[i] << " for " << r;
    }
  }
}

TEST_P(UnaryOp, KeepsNaNAndTheLimitsAtInfinity) {
  Plugin plugin;
  const std::vector<float> edges = {std::nanf(""), infinity, -infinity, 1e30f, -1e30f, 100.0f, -100.0f, 0.0f, -0.0f};
  const auto n = static_cast<std::int64_t>(edges.size());
  const Tensor y = make(QUERN_F32, {n});
  ASSERT_EQ(run_node(plugin, GetParam().op, {of({n}, edges)}, {y}, GetParam().attributes).status, QUERN_OK);
  EXPECT_TRUE(std::isnan(y.f32()[0]));
  for (std::size_t i = 1; i < edges.size(); ++i) {
    const double x = static_cast<double>(edges[i]);
    double r = GetParam().exact(x);
    if (GetParam().op == QUERN_OP_GELU && edges[i] == -infinity) r = 0;
    if (std::fabs(r) > static_cast<double>(std::numeric_limits<float>::max()))
      r = std::copysign(std::numeric_limits<double>::infinity(), r);
    const double got = static_cast<double>(y.f32()[i]);
    if (std::isnan(r)) EXPECT_TRUE(std::isnan(got)) << x;
    else if (std::isinf(r) || std::isinf(x)) EXPECT_EQ(got, r) << x;
    else EXPECT_LE(std::fabs(got - r), GetParam().slack(x, r) + out_error(QUERN_F32, r)) << x;
  }
  EXPECT_TRUE(GetParam().op != QUERN_OP_NEG || (std::signbit(y.f32()[7]) && !std::signbit(y.f32()[8])));
}

TEST(Elements, RunInPlaceAndOverColumns) {
  Plugin plugin(2);
  GraphSpec graph;  // state [4, 3]; neg of its first two columns in place
  Tensor whole = of({4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, QUERN_F32, QUERN_VALUE_STATE),
         view = make(QUERN_F32, {4, 2}, QUERN_VALUE_STATE);
  view.strides = {12, 4};
  view.alias_of = graph.add(whole);
  const std::uint32_t id = graph.add(view);
  graph.nodes.push_back({QUERN_OP_NEG, {id}, {id}});
  const Outcome outcome = plugin.run(graph);
  ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
  EXPECT_EQ(whole.floats(), (std::vector<float>{-1, -2, 3, -4, -5, 6, -7, -8, 9, -10, -11, 12}));
}

TEST(Elements, SubAndDivBroadcastAndRoundOnce) {
  Plugin plugin(2);
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16}) {
    const Tensor a = random_tensor(dtype, {3, 300}, 2), b = random_tensor(dtype, {300}, 3), y = make(dtype, {3, 300}),
                 z = make(dtype, {3, 300});
    ASSERT_EQ(run_node(plugin, QUERN_OP_SUB, {a, b}, {y}).status, QUERN_OK);
    ASSERT_EQ(run_node(plugin, QUERN_OP_DIV, {a, b}, {z}).status, QUERN_OK);
    const std::vector<double> left = meaning(a), right = meaning(b), difference = meaning(y), ratio = meaning(z);
    for (std::size_t i = 0; i < left.size(); ++i) {
      const double d = left[i] - right[i % 300], q = left[i] / right[i % 300];
      const double twice = dtype == QUERN_F32 ? 0 : 2 * u;  // the f32 result is rounded once more at the store
      ASSERT_LE(std::fabs(difference[i] - d), out_error(dtype, d) + twice * std::fabs(d));
      ASSERT_LE(std::fabs(ratio[i] - q), out_error(dtype, q) + twice * std::fabs(q));
    }
  }
}

TEST(Elements, ClampRefusesBoundsInTheWrongOrder) {
  Plugin plugin;
  const Outcome outcome =
      run_node(plugin, QUERN_OP_CLAMP, {of({1}, {0})}, {make(QUERN_F32, {1})}, {{QUERN_KEY_MIN, 2}, {QUERN_KEY_MAX, 1}});
  EXPECT_EQ(outcome.status, QUERN_INVALID_ARGUMENT);
  EXPECT_NE(outcome.text.find("it is at most max"), std::string::npos) << outcome.text;
}

TEST(Elements, GeluRefusesAnUnknownKind) {
  Plugin plugin;
  EXPECT_EQ(run_node(plugin, QUERN_OP_GELU, {of({1}, {0})}, {make(QUERN_F32, {1})}, {{QUERN_KEY_KIND, 3}}).status, QUERN_UNSUPPORTED);
}

TEST(Fill, WritesEveryElementAndNoOther) {
  Plugin plugin(2);
  const Tensor y = make(QUERN_F16, {3, 1000}), z = make(QUERN_I32, {7});
  ASSERT_EQ(run_node(plugin, QUERN_OP_FILL, {}, {y}, {{QUERN_KEY_VALUE, -0.1}}).status, QUERN_OK);
  for (const double v : meaning(y)) ASSERT_EQ(v, static_cast<double>(to_float(to_half(-0.1f))));
  EXPECT_EQ(y.raw()[y.bytes()], 0xa5);
  ASSERT_EQ(run_node(plugin, QUERN_OP_FILL, {}, {z}, {{QUERN_KEY_VALUE, 16777217.0}}).status, QUERN_OK);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(z.integers()[i], 16777217);  // which no f32 holds
  EXPECT_EQ(run_node(plugin, QUERN_OP_FILL, {}, {z}, {{QUERN_KEY_VALUE, 0.5}}).status, QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(run_node(plugin, QUERN_OP_FILL, {}, {z}, {{QUERN_KEY_VALUE, 0x1p31}}).status, QUERN_INVALID_ARGUMENT);
}

TEST(Cumsum, StaysWithinTheBoundOfASumOfItsLength) {
  Plugin plugin(2);
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16}) {
    const std::int64_t n = dtype == QUERN_F32 ? 20000 : 300;
    const Tensor x = random_tensor(dtype, {2, n}, 4), y = make(dtype, {2, n});
    ASSERT_EQ(run_node(plugin, QUERN_OP_CUMSUM, {x}, {y}).status, QUERN_OK);
    const std::vector<double> from = meaning(x), to = meaning(y);
    for (std::size_t row = 0; row < 2; ++row) {
      double r = 0, s = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
        const std::size_t at = row * static_cast<std::size_t>(n) + i;
        r += from[at], s += std::fabs(from[at]);
        ASSERT_LE(std::fabs(to[at] - r), (2 * std::sqrt(static_cast<double>(i + 1)) + 8) * u * s + out_error(dtype, r)) << i;
      }
    }
  }
}

}  // namespace
}  // namespace quern::cpu_test
