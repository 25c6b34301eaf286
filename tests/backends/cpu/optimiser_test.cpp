// AdamW, SGD, the norm of gradients and the clipping scale against f64 over several steps, with what they skip and refuse.
#include "gradient_check.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace quern::cpu_test {
namespace {

const float nan = std::nanf("");
constexpr float infinity = std::numeric_limits<float>::infinity();

Tensor state(const Tensor& from) {
  Tensor t = make(from.dtype, from.dims, QUERN_VALUE_STATE);
  std::memcpy(t.raw().data(), from.raw().data(), from.bytes());
  return t;
}
Tensor zeros(std::vector<std::int64_t> dims) {
  Tensor t = make(QUERN_F32, std::move(dims), QUERN_VALUE_STATE);
  std::memset(t.raw().data(), 0, t.bytes());
  return t;
}

struct Adam {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  float lr = 1e-3f;
  std::vector<Attribute> attributes() const {
    return {{QUERN_KEY_BETA1, beta1}, {QUERN_KEY_BETA2, beta2}, {QUERN_KEY_EPSILON, epsilon}, {QUERN_KEY_WEIGHT_DECAY, weight_decay}};
  }
};

/// One step for one element in f64, from what the op was given; holds what came out of it to the bounds.
void expect_step(const Adam& a, int step, double g, double w, double m, double v, double got_w, double got_m, double got_v,
                 double store_error, const std::string& what) {
  const double m1 = a.beta1 * m + (1 - a.beta1) * g, v1 = a.beta2 * v + (1 - a.beta2) * g * g;
  const double m_size = a.beta1 * std::fabs(m) + (1 - a.beta1) * std::fabs(g);
  const double c1 = 1 - std::pow(a.beta1, step), c2 = 1 - std::pow(a.beta2, step), lr = static_cast<double>(a.lr);
  // m: a coefficient, up to two products and a sum; v has one product more.
  ASSERT_LE(std::fabs(got_m - m1), 4 * u * m_size + 0x1p-149) << what << " m";
  ASSERT_LE(std::fabs(got_v - v1), 5 * u * v1 + 0x1p-149) << what << " v";
  const double root = std::sqrt(v1 / c2) + a.epsilon, step_size = lr * m_size / c1 / root, decay = lr * a.weight_decay * std::fabs(w);
  const double r = w - lr * a.weight_decay * w - lr * (m1 / c1) / root;
  // The step inherits the errors of m (4 u) and of the root of v (2.5 u), with six roundings of its own; then decay and the difference.
  ASSERT_LE(std::fabs(got_w - r), u * (14 * step_size + 4 * decay + 2 * std::fabs(w)) + store_error * std::fabs(r) + 0x1p-149)
      << what << " w";
}

TEST(Adamw, FollowsF64AtStepsOneTwoTenAndAThousandWithAndWithoutDecay) {
  constexpr std::int64_t n = 1043;
  for (const std::string& family : families())
    for (const int step : {1, 2, 10, 1000})
      for (const double decay : {0.0, 0.1})
        for (const int kind : {0, 1, 2}) {  // w f32, w bf16, w bf16 with an f32 master
          Plugin plugin(2, {{"force_kernel", family}});
          Adam a;
          a.weight_decay = decay;
          const Tensor gradient = random_tensor(QUERN_F32, {n}, 1), w = state(random_tensor(kind == 0 ? QUERN_F32 : QUERN_BF16, {n}, 2)),
                       m = state(random_tensor(QUERN_F32, {n}, 3, 0.1));
          const Tensor v = state(random_tensor(QUERN_F32, {n}, 4, 0.01)), master = state(random_tensor(QUERN_F32, {n}, 5));
          for (float& x : v.f32().first(n)) x = std::fabs(x);
          gradient.f32()[7] = 0;
          m.f32()[7] = v.f32()[7] = 0;
          const std::vector<double> w0 = meaning(kind == 2 ? master : w), m0 = meaning(m), v0 = meaning(v), g = meaning(gradient);
          std::vector<Tensor> outputs = {w, m, v};
          if (kind == 2) outputs.push_back(master);
          const Outcome outcome =
              run_node(plugin, QUERN_OP_ADAMW, {gradient, ints({1}, {step}), of({1}, {a.lr}), of({1}, {0.5f})}, outputs, a.attributes());
          ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
          const std::vector<double> w1 = meaning(kind == 2 ? master : w), m1 = meaning(m), v1 = meaning(v);
          for (std::size_t i = 0; i < n; ++i)
            expect_step(a, step, 0.5 * g[i], w0[i], m0[i], v0[i], w1[i], m1[i], v1[i], kind == 1 ? 0x1p-8 : 0,
                        family + " step " + std::to_string(step) + " kind " + std::to_string(kind));
          if (kind == 2) {  // w is master, rounded
            const std::vector<double> rounded = meaning(w);
            for (std::size_t i = 0; i < n; ++i) ASSERT_LE(std::fabs(rounded[i] - w1[i]), 0x1p-8 * std::fabs(w1[i]));
          }
          if (decay == 0) {
            EXPECT_EQ(w1[7], w0[7]);  // g, m and v of 0 move nothing
          }
        }
}

TEST(Adamw, AThousandStepsStayOnTheReference) {
  Plugin plugin;
  Adam a;
  a.weight_decay = 0.01;
  const Tensor w = state(of({2}, {1, -2})), m = zeros({2}), v = zeros({2}), gradient = of({2}, {0, 0}), step = ints({1}, {0});
  double rw[2] = {1, -2}, rm[2] = {}, rv[2] = {};
  for (int t = 1; t <= 1000; ++t) {
    step.integers()[0] = t;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto g = static_cast<float>(std::sin(0.1 * t + static_cast<double>(i)));
      gradient.f32()[i] = g;
      rm[i] = a.beta1 * rm[i] + (1 - a.beta1) * static_cast<double>(g);
      rv[i] = a.beta2 * rv[i] + (1 - a.beta2) * static_cast<double>(g) * static_cast<double>(g);
      const double lr = static_cast<double>(a.lr);
      rw[i] -= lr * a.weight_decay * rw[i] +
               lr * rm[i] / (1 - std::pow(a.beta1, t)) / (std::sqrt(rv[i] / (1 - std::pow(a.beta2, t))) + a.epsilon);
    }
    ASSERT_EQ(run_node(plugin, QUERN_OP_ADAMW, {gradient, step, of({1}, {a.lr})}, {w, m, v}, a.attributes()).status, QUERN_OK);
  }
  // A thousand roundings of w below 2.2 (each up to 2^-23.9, at random signs a root of them), and steps of 1e-3 that are 1e-6 off.
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(static_cast<double>(w.f32()[i]), rw[i], 4 * std::sqrt(1000.0) * 0x1p-23 + 1e-6);
}

TEST(Adamw, AHugeGradientStaysInRangeAndASkippedStepWritesNothing) {
  for (const std::string& family : families()) {
    Plugin plugin(1, {{"force_kernel", family}});
    const Adam a;
    const Tensor w = state(of({3}, {1, 2, 3})), m = zeros({3}), v = zeros({3}), gradient = of({3}, {1e20f, -1e20f, 0});
    ASSERT_EQ(run_node(plugin, QUERN_OP_ADAMW, {gradient, ints({1}, {1}), of({1}, {a.lr})}, {w, m, v}, a.attributes()).status, QUERN_OK);
    EXPECT_FLOAT_EQ(v.f32()[0], 1e37f);  // 1e40 would not fit
    EXPECT_FLOAT_EQ(w.f32()[0], 1 - a.lr);
    EXPECT_FLOAT_EQ(w.f32()[1], 2 + a.lr);
    EXPECT_EQ(w.f32()[2], 3.0f);
    // A NaN anywhere: `finite` of grad_norm is the predicate.
    const Tensor norm = make(QUERN_F32, {1}), finite = make(QUERN_I32, {1}), before_w = state(w), before_m = state(m), before_v = state(v);
    for (const float bad : {nan, infinity}) {
      gradient.f32()[1] = bad;
      ASSERT_EQ(run_node(plugin, QUERN_OP_GRAD_NORM, {gradient}, {norm, finite}).status, QUERN_OK);
      EXPECT_EQ(finite.integers()[0], 0);
      const Outcome outcome =
          run_node(plugin, QUERN_OP_ADAMW, {gradient, ints({1}, {2}), of({1}, {a.lr})}, {w, m, v}, a.attributes(), nullptr, finite);
      ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
      for (const auto& [after, before] : {std::pair{&w, &before_w}, std::pair{&m, &before_m}, std::pair{&v, &before_v}})
        EXPECT_EQ(std::memcmp(after->raw().data(), before->raw().data(), 12), 0);
    }
    // Without a predicate the formula holds, for that element alone.
    ASSERT_EQ(run_node(plugin, QUERN_OP_ADAMW, {gradient, ints({1}, {2}), of({1}, {a.lr})}, {w, m, v}, a.attributes()).status, QUERN_OK);
    EXPECT_TRUE(std::isnan(w.f32()[1]));
    EXPECT_FALSE(std::isnan(w.f32()[0]) || std::isnan(w.f32()[2]));
  }
}

TEST(Adamw, AStepBelowOneWritesNothingAndIsAFault) {
  Plugin plugin;
  const Adam a;
  const Tensor w = state(of({1}, {1})), m = zeros({1}), v = zeros({1});
  for (const std::int32_t step : {0, -3}) {
    const Outcome outcome = run_node(plugin, QUERN_OP_ADAMW, {of({1}, {1}), ints({1}, {step}), of({1}, {a.lr})}, {w, m, v}, a.attributes());
    EXPECT_EQ(outcome.status, QUERN_OK);
    EXPECT_EQ(outcome.faults, QUERN_FAULT_NON_FINITE);
    EXPECT_EQ(w.f32()[0], 1.0f);
    EXPECT_EQ(v.f32()[0], 0.0f);
  }
}

TEST(Adamw, APredicateOfRowsAndAStridedStateUpdateOnlyWhatTheyShow) {
  Plugin plugin(2);
  const Adam a;
  for (const bool vector : {false, true}) {
    const std::vector<std::int64_t> dims = vector ? std::vector<std::int64_t>{4} : std::vector<std::int64_t>{4, 2, 3};
    const std::int64_t each = vector ? 1 : 6;
    const Tensor gradient = random_tensor(QUERN_F32, dims, 6), whole_w = state(random_tensor(QUERN_F32, dims, 7)), w = state(whole_w),
                 before = state(whole_w);
    const Tensor whole_m = zeros(dims), whole_v = zeros(dims), m = zeros(dims), v = zeros(dims);
    ASSERT_EQ(
        run_node(plugin, QUERN_OP_ADAMW, {gradient, ints({1}, {1}), of({1}, {a.lr})}, {whole_w, whole_m, whole_v}, a.attributes()).status,
        QUERN_OK);
    const Outcome outcome = run_node(plugin, QUERN_OP_ADAMW, {gradient, ints({1}, {1}), of({1}, {a.lr})}, {w, m, v}, a.attributes(),
                                     nullptr, ints({4}, {1, 0, 0, 1}));
    ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
    for (std::int64_t i = 0; i < 4 * each; ++i) {
      const bool live = i / each == 0 || i / each == 3;
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(w.f32()[at], (live ? whole_w : before).f32()[at]) << i;
      EXPECT_EQ(m.f32()[at], live ? whole_m.f32()[at] : 0.0f) << i;
    }
  }
  const Tensor gradient = random_tensor(QUERN_F32, {5, 3}, 8), w = state(random_tensor(QUERN_F32, {5, 3}, 9)), m = zeros({5, 3}),
               v = zeros({5, 3});
  Tensor turned = make(QUERN_F32, {5, 3}, QUERN_VALUE_STATE);  // the same numbers, column by column
  turned.strides = {4, 20};
  for (std::size_t r = 0; r < 5; ++r)
    for (std::size_t c = 0; c < 3; ++c) turned.f32()[c * 5 + r] = w.f32()[r * 3 + c];
  const Tensor again_m = zeros({5, 3}), again_v = zeros({5, 3});
  ASSERT_EQ(run_node(plugin, QUERN_OP_ADAMW, {gradient, ints({1}, {1}), of({1}, {a.lr})}, {w, m, v}, a.attributes()).status, QUERN_OK);
  ASSERT_EQ(
      run_node(plugin, QUERN_OP_ADAMW, {gradient, ints({1}, {1}), of({1}, {a.lr})}, {turned, again_m, again_v}, a.attributes()).status,
      QUERN_OK);
  for (std::size_t r = 0; r < 5; ++r)
    for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(turned.f32()[c * 5 + r], w.f32()[r * 3 + c]);
}

TEST(Adamw, RefusesWhatItsDefinitionExcludes) {
  Plugin plugin;
  const Tensor gradient = of({2}, {1, 2}), one = of({1}, {1}), step = ints({1}, {1}), w = state(gradient), m = zeros({2}), v = zeros({2});
  const auto refusal = [&](const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                           const std::vector<Attribute>& attributes) {
    return run_node(plugin, QUERN_OP_ADAMW, inputs, outputs, attributes).text;
  };
  EXPECT_NE(refusal({gradient, step, one}, {w, m, v}, {{QUERN_KEY_BETA1, 1}}).find("beta1 is 1"), std::string::npos);
  EXPECT_NE(refusal({gradient, step, one}, {w, m, v}, {{QUERN_KEY_EPSILON, 0}}).find("epsilon is 0"), std::string::npos);
  EXPECT_NE(refusal({gradient, step, one}, {w, m, v}, {{QUERN_KEY_WEIGHT_DECAY, -1}}).find("weight_decay is -1"), std::string::npos);
  EXPECT_NE(refusal({gradient, step, gradient}, {w, m, v}, {}).find("lr is [2] f32"), std::string::npos);
  EXPECT_NE(refusal({gradient, step, one}, {make(QUERN_F16, {2}, QUERN_VALUE_STATE), m, v}, {}).find("w is [2] f16"), std::string::npos);
  EXPECT_NE(refusal({gradient, step, one}, {w, m, zeros({3})}, {}).find("v is [3] f32"), std::string::npos);
}

TEST(Sgd, FollowsF64WithMomentumAndDecayInBothDtypes) {
  Plugin plugin(2);
  constexpr std::int64_t n = 700;
  for (const quern_dtype dtype : {QUERN_F32, QUERN_BF16})
    for (const double factor : {0.0, 0.9})
      for (const double decay : {0.0, 0.1})
        for (const bool kept : {false, true}) {
          if (!kept && factor > 0) continue;
          const Tensor gradient = random_tensor(dtype, {n}, 10), w = state(random_tensor(dtype, {n}, 11)),
                       momentum = state(random_tensor(dtype, {n}, 12));
          const std::vector<double> g = meaning(gradient), w0 = meaning(w), b0 = meaning(momentum);
          std::vector<Tensor> outputs = {w};
          if (kept) outputs.push_back(momentum);
          const Outcome outcome = run_node(plugin, QUERN_OP_SGD, {gradient, of({1}, {0.01f}), of({1}, {0.25f})}, outputs,
                                           {{QUERN_KEY_MOMENTUM, factor}, {QUERN_KEY_WEIGHT_DECAY, decay}});
          ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
          const std::vector<double> w1 = meaning(w), b1 = meaning(momentum);
          for (std::size_t i = 0; i < n; ++i) {
            const double d = 0.25 * g[i] + (kept ? factor * b0[i] : 0),
                         size = 0.25 * std::fabs(g[i]) + factor * std::fabs(b0[i]) + decay * std::fabs(w0[i]);
            const double r = w0[i] - 0.01 * (d + decay * w0[i]);
            if (kept) { ASSERT_LE(std::fabs(b1[i] - d), 4 * u * size + out_error(dtype, d)); }
            ASSERT_LE(std::fabs(w1[i] - r), 0.01 * 8 * u * size + 2 * u * std::fabs(w0[i]) + out_error(dtype, r));
          }
        }
  const Tensor w = state(of({1}, {1}));
  const Outcome refused = run_node(plugin, QUERN_OP_SGD, {of({1}, {1}), of({1}, {1})}, {w}, {{QUERN_KEY_MOMENTUM, 0.9}});
  EXPECT_NE(refused.text.find("needs the state momentum"), std::string::npos) << refused.text;
  ASSERT_EQ(run_node(plugin, QUERN_OP_SGD, {of({1}, {nan}), of({1}, {1})}, {w}, {}, nullptr, ints({1}, {0})).status, QUERN_OK);
  EXPECT_EQ(w.f32()[0], 1.0f);
}

TEST(GradNorm, SumsSquaresOfAllInputsInF64AndSeesWhatIsNotFinite) {
  Plugin one(1), four(4);
  const Tensor a = random_tensor(QUERN_F32, {129, 1001}, 13), b = random_tensor(QUERN_F16, {70000}, 14),
               c = random_tensor(QUERN_BF16, {3, 5, 7}, 15), norm = make(QUERN_F32, {1}), finite = make(QUERN_I32, {1}),
               again = make(QUERN_F32, {1});
  ASSERT_EQ(run_node(one, QUERN_OP_GRAD_NORM, {a, b, c}, {norm, finite}).status, QUERN_OK);
  ASSERT_EQ(run_node(four, QUERN_OP_GRAD_NORM, {a, b, c}, {again, finite}).status, QUERN_OK);
  double squares = 0;
  for (const Tensor* t : {&a, &b, &c}) squares += dot(meaning(*t), meaning(*t));
  EXPECT_LE(std::fabs(static_cast<double>(norm.f32()[0]) - std::sqrt(squares)), 1.01 * u * std::sqrt(squares));  // f64 but for the store
  EXPECT_EQ(norm.f32()[0], again.f32()[0]);
  EXPECT_EQ(finite.integers()[0], 1);
  ASSERT_EQ(run_node(one, QUERN_OP_GRAD_NORM, {of({3}, {3e20f, 4e20f, 0})}, {norm, finite}).status, QUERN_OK);
  EXPECT_FLOAT_EQ(norm.f32()[0], 5e20f);  // squares beyond f32
  EXPECT_EQ(finite.integers()[0], 1);
  for (const float bad : {nan, infinity, -infinity}) {
    a.f32()[77777] = bad;
    ASSERT_EQ(run_node(four, QUERN_OP_GRAD_NORM, {c, a}, {norm, finite}).status, QUERN_OK);
    EXPECT_EQ(finite.integers()[0], 0);
    EXPECT_FALSE(std::isfinite(norm.f32()[0]));
  }
}

TEST(ClipScale, NeverRaisesAndUndoesTheLossScale) {
  Plugin plugin;
  const Tensor scale = make(QUERN_F32, {1});
  const auto scale_of = [&](float norm, const Tensor& loss_scale) {
    EXPECT_EQ(run_node(plugin, QUERN_OP_CLIP_SCALE, {of({1}, {norm}), loss_scale}, {scale}, {{QUERN_KEY_MAX_NORM, 2}}).status, QUERN_OK);
    return scale.f32()[0];
  };
  EXPECT_EQ(scale_of(8, absent()), 0.25f);
  EXPECT_EQ(scale_of(1, absent()), 1.0f);
  EXPECT_EQ(scale_of(0, absent()), 1.0f);
  EXPECT_EQ(scale_of(infinity, absent()), 0.0f);
  EXPECT_TRUE(std::isnan(scale_of(nan, absent())));
  EXPECT_EQ(scale_of(8 * 1024, of({1}, {1024})), 0.25f / 1024);
  EXPECT_EQ(scale_of(1024, of({1}, {1024})), 1.0f / 1024);
  const Outcome refused = run_node(plugin, QUERN_OP_CLIP_SCALE, {of({1}, {1})}, {scale}, {{QUERN_KEY_MAX_NORM, 0}});
  EXPECT_NE(refused.text.find("max_norm is 0"), std::string::npos) << refused.text;
}

}  // namespace
}  // namespace quern::cpu_test
