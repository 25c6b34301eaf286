// Gradients of the activations and of glu against central differences of the forward in f64.
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
double gelu(int kind, double x) {
  if (kind == 2) return x * sigmoid(1.702 * x);
  if (kind == 1) return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return 0.5 * x * std::erfc(-x / std::sqrt(2));
}
double slope(const std::function<double(double)>& f, double x) {
  return slope_at({x}, 0, [&](const Doubles& v) { return f(v[0]); });
}

struct Activation {
  const char* name;
  std::uint32_t op;
  std::vector<Attribute> attributes;
  std::function<double(double)> f;
};
const Activation activations[] = {
    {"silu", QUERN_OP_SILU_BACKWARD, {}, [](double x) { return x * sigmoid(x); }},
    {"gelu erf", QUERN_OP_GELU_BACKWARD, {}, [](double x) { return gelu(0, x); }},
    {"gelu tanh", QUERN_OP_GELU_BACKWARD, {{QUERN_KEY_KIND, 1}}, [](double x) { return gelu(1, x); }},
    {"gelu quick", QUERN_OP_GELU_BACKWARD, {{QUERN_KEY_KIND, 2}}, [](double x) { return gelu(2, x); }},
    {"relu", QUERN_OP_RELU_BACKWARD, {}, [](double x) { return std::max(x, 0.0); }},
    {"relu_sqr", QUERN_OP_RELU_SQR_BACKWARD, {}, [](double x) { return std::max(x, 0.0) * std::max(x, 0.0); }},
    {"sigmoid", QUERN_OP_SIGMOID_BACKWARD, {}, sigmoid},
    {"tanh", QUERN_OP_TANH_BACKWARD, {}, [](double x) { return std::tanh(x); }},
};

TEST(ActivationBackward, IsTheSlopeOfTheActivationInEveryDtype) {
  for (const std::string& family : families())
    for (const quern_dtype dtype : float_dtypes)
      for (const Activation& a : activations) {
        Plugin plugin(2, {{"force_kernel", family}});
        const Tensor x = random_tensor(dtype, {3, 1041}, 1, 3.0), dy = random_tensor(dtype, {3, 1041}, 2), dx = make(dtype, {3, 1041});
        const Outcome outcome = run_node(plugin, a.op, {x, dy}, {dx}, a.attributes);
        ASSERT_EQ(outcome.status, QUERN_OK) << a.name << ": " << outcome.text;
        const Doubles at = meaning(x), from = meaning(dy), got = meaning(dx);
        for (std::size_t i = 0; i < at.size(); ++i) {
          if (std::fabs(at[i]) < 2e-5) continue;  // the difference would straddle the corner of relu
          const double r = from[i] * slope(a.f, at[i]);
          // A slope has a dozen roundings of terms below 2 (of terms of 2 |x| for relu_sqr), and the difference its own 1e-9.
          const double bound = std::fabs(from[i]) * (24 * u * (1 + std::fabs(at[i])) + 1e-9);
          ASSERT_LE(std::fabs(got[i] - r), bound + out_error(dtype, r)) << a.name << " at " << at[i] << ", " << family;
        }
      }
}

TEST(ActivationBackward, IsItsLimitAtInfinityAndKeepsNaN) {
  const double limits[][2] = {{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 0}, {0, 0}, {0, 0}};
  for (const std::string& family : families()) {
    Plugin plugin(1, {{"force_kernel", family}});
    for (std::size_t a = 0; a < std::size(activations); ++a) {
      const Tensor x = of({5}, {-infinity, -1000, nan, 1000, infinity}), dy = of({5}, {2, 2, 2, 2, 2}), dx = make(QUERN_F32, {5});
      ASSERT_EQ(run_node(plugin, activations[a].op, {x, dy}, {dx}, activations[a].attributes).status, QUERN_OK);
      EXPECT_EQ(dx.f32()[0], 2 * limits[a][0]) << activations[a].name;
      EXPECT_EQ(dx.f32()[1], 2 * limits[a][0]) << activations[a].name;
      if (activations[a].op == QUERN_OP_RELU_BACKWARD) EXPECT_EQ(dx.f32()[2], 0.0f);  // dy where x > 0, else 0
      else EXPECT_TRUE(std::isnan(dx.f32()[2])) << activations[a].name;
      if (activations[a].op == QUERN_OP_RELU_SQR_BACKWARD) continue;  // 2 x
      EXPECT_EQ(dx.f32()[3], 2 * limits[a][1]) << activations[a].name;
      EXPECT_EQ(dx.f32()[4], 2 * limits[a][1]) << activations[a].name;
    }
  }
}

TEST(ActivationBackward, SmallSlopesKeepTheirDigits) {
  Plugin plugin;
  const Tensor x = of({6}, {-40, -12, -5, 5, 12, 40}), dy = of({6}, {1, 1, 1, 1, 1, 1}), dx = make(QUERN_F32, {6});
  for (const bool hyperbolic : {false, true}) {
    ASSERT_EQ(run_node(plugin, hyperbolic ? QUERN_OP_TANH_BACKWARD : QUERN_OP_SIGMOID_BACKWARD, {x, dy}, {dx}).status, QUERN_OK);
    for (std::size_t i = 0; i < 6; ++i) {
      const double z = (hyperbolic ? 2 : 1) * static_cast<double>(x.f32()[i]), e = std::exp(-std::fabs(z)),
                   r = (hyperbolic ? 4 : 1) * e / ((1 + e) * (1 + e));
      // exp within (3 + 2 |z|) ulp, then four roundings.
      EXPECT_LE(std::fabs(static_cast<double>(dx.f32()[i]) - r), (16 + 4 * std::fabs(z)) * u * r + 0x1p-149) << z;
    }
  }
}

TEST(ActivationBackward, RunsInPlaceAndOnStridedRows) {
  Plugin plugin;
  for (const std::uint32_t op : {QUERN_OP_SILU_BACKWARD, QUERN_OP_TANH_BACKWARD}) {
    Tensor x = random_tensor(QUERN_F32, {4, 40}, 3), dy = random_tensor(QUERN_F32, {4, 40}, 4);
    const Tensor dx = make(QUERN_F32, {4, 40});
    ASSERT_EQ(run_node(plugin, op, {x, dy}, {dx}).status, QUERN_OK);
    dy.kind = QUERN_VALUE_STATE;
    GraphSpec graph;
    const std::uint32_t at = graph.add(x), state = graph.add(dy);
    graph.nodes.push_back({op, {at, state}, {state}});
    ASSERT_EQ(plugin.run(graph).status, QUERN_OK);
    EXPECT_EQ(std::memcmp(dy.raw().data(), dx.raw().data(), dx.bytes()), 0);
    Tensor transposed = random_tensor(QUERN_F32, {4, 40}, 4);  // the same numbers, their columns together
    const std::vector<float> values(transposed.f32().begin(), transposed.f32().begin() + 160);
    for (std::size_t r = 0; r < 4; ++r)
      for (std::size_t c = 0; c < 40; ++c) transposed.f32()[c * 4 + r] = values[r * 40 + c];
    transposed.strides = {4, 16};
    const Tensor again = make(QUERN_F32, {4, 40});
    ASSERT_EQ(run_node(plugin, op, {x, transposed}, {again}).status, QUERN_OK);
    EXPECT_EQ(std::memcmp(again.raw().data(), dx.raw().data(), dx.bytes()), 0);
  }
}

double glu_value(int kind, double g, double up, double alpha, double limit) {
  const bool limited = std::isfinite(limit);
  if (limited) g = std::min(g, limit), up = std::clamp(up, -limit, limit) + 1;
  if (kind == 0) return g * sigmoid((limited ? alpha : 1) * g) * up;
  if (kind == 3) return std::max(g, 0.0) * up;
  if (kind == 4) return sigmoid(g) * up;
  return gelu(kind == 1 ? 0 : 1, g) * up;
}

TEST(GluBackward, IsTheSlopeForBothFactorsInEveryLayout) {
  constexpr std::size_t rows = 2, n = 533;
  for (const std::string& family : families())
    for (const quern_dtype dtype : float_dtypes)
      for (const int kind : {0, 1, 2, 3, 4})
        for (const double limit : {static_cast<double>(infinity), 2.0})
          for (const int layout : {0, 1, 2}) {  // two inputs, halves, halves with up first
            Plugin plugin(2, {{"force_kernel", family}});
            const bool packed = layout != 0;
            const std::int64_t width = packed ? 2 * n : n;
            const Tensor gate = random_tensor(dtype, {rows, width}, 5, 2.0), up = random_tensor(dtype, {rows, n}, 6, 2.0),
                         dy = random_tensor(dtype, {rows, n}, 7);
            const Tensor dgate = make(dtype, {rows, width}), dup = make(dtype, {rows, n});
            std::vector<Attribute> attributes = {
                {QUERN_KEY_KIND, static_cast<double>(kind)}, {QUERN_KEY_ALPHA, 1.5}, {QUERN_KEY_LIMIT, limit}};
            if (layout == 2) attributes.push_back({QUERN_KEY_SWAPPED, 1});
            const Outcome outcome =
                run_node(plugin, QUERN_OP_GLU_BACKWARD, {gate, packed ? absent() : up, dy}, {dgate, packed ? absent() : dup}, attributes);
            ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
            const Doubles gates = meaning(gate), ups = meaning(up), from = meaning(dy), got_gate = meaning(dgate),
                          got_up = packed ? got_gate : meaning(dup);
            for (std::size_t i = 0; i < rows * n; ++i) {
              const std::size_t row = i / n, c = i % n, gate_at = packed ? row * 2 * n + c + (layout == 2 ? n : 0) : i,
                                up_at = packed ? row * 2 * n + c + (layout == 2 ? 0 : n) : i;
              const double g = gates[gate_at], v = packed ? gates[up_at] : ups[i];
              if (std::fabs(g) < 2e-5 || std::fabs(g - limit) < 2e-5 || std::fabs(std::fabs(v) - limit) < 2e-5) continue;  // corners
              const double by_gate = from[i] * slope([&](double x) { return glu_value(kind, x, v, 1.5, limit); }, g);
              const double by_up = from[i] * slope([&](double x) { return glu_value(kind, g, x, 1.5, limit); }, v);
              // As above, times the other factor.
              const double bound = std::fabs(from[i]) * (24 * u * (1 + 1.5 * std::fabs(g)) + 1e-9);
              ASSERT_LE(std::fabs(got_gate[gate_at] - by_gate), bound * (1 + std::fabs(v)) + out_error(dtype, by_gate))
                  << family << " kind " << kind << " limit " << limit;
              ASSERT_LE(std::fabs(got_up[up_at] - by_up), bound * (1 + std::fabs(g)) + out_error(dtype, by_up))
                  << family << " kind " << kind << " limit " << limit;
            }
          }
}

TEST(GluBackward, PassesAtTheLimitItselfAndNotBeyond) {
  Plugin plugin;
  const Tensor gate = of({4}, {2, 2.5f, 1, 1}), up = of({4}, {1, 1, 2, -2.5f}), dy = of({4}, {1, 1, 1, 1}), dgate = make(QUERN_F32, {4}),
               dup = make(QUERN_F32, {4});
  ASSERT_EQ(run_node(plugin, QUERN_OP_GLU_BACKWARD, {gate, up, dy}, {dgate, dup}, {{QUERN_KEY_KIND, 3}, {QUERN_KEY_LIMIT, 2}}).status,
            QUERN_OK);
  EXPECT_EQ(std::vector<float>(dgate.f32().begin(), dgate.f32().begin() + 4), (std::vector<float>{2, 0, 3, -1}));
  EXPECT_EQ(std::vector<float>(dup.f32().begin(), dup.f32().begin() + 4), (std::vector<float>{2, 2, 1, 0}));
  const Outcome refused = run_node(plugin, QUERN_OP_GLU_BACKWARD, {of({4}, {1, 2, 3, 4}), absent(), of({2}, {1, 1})},
                                   {make(QUERN_F32, {4}), make(QUERN_F32, {4})});
  EXPECT_NE(refused.text.find("dup is wanted but there is no up"), std::string::npos) << refused.text;
}

}  // namespace
}  // namespace quern::cpu_test
