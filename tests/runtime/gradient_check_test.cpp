// The check of gradients passes what is right and finds what is not: a loss of two tensors whose gradient is known.
#include "gradient_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

namespace quern::runtime {
namespace {

constexpr std::uint64_t size = 64;

/// loss = mean of log(1 + exp(-(a . x_i) tanh(b . x_i))), computed in f64 and rounded to f32, as a model's is.
class Model {
 public:
  Model() {
    for (std::uint64_t i = 0; i < 2 * size; ++i) numbers_[i] = 0.1f * std::sin(static_cast<float>(i) + 1.0f);
  }

  GradientSource source() {
    GradientSource source;
    source.elements = 2 * size;
    source.tensors = {{"a", 0, size}, {"b", size, size}};
    source.loss = [this] { return static_cast<double>(static_cast<float>(at(nullptr))); };
    source.gradient = [this](std::span<float> out) {
      double gradient[2 * size]{};
      at(gradient);
      for (std::uint64_t i = 0; i < 2 * size; ++i) out[i] = static_cast<float>(gradient[i]);
      if (fault) fault(out);
    };
    source.read = [this](std::span<float> out) { std::ranges::copy(numbers_, out.begin()); };
    source.write = [this](std::span<const float> in) { std::ranges::copy(in, numbers_); };
    source.update = [this] { numbers_[0] += 0.01f; };
    return source;
  }

  std::function<void(std::span<float>)> fault;

 private:
  double at(double* gradient) const {
    constexpr int examples = 8;
    double loss = 0;
    for (int e = 0; e < examples; ++e) {
      double a = 0, b = 0;
      const auto x = [&](std::uint64_t i) { return std::cos(1.7 * static_cast<double>(i) + e * e); };
      for (std::uint64_t i = 0; i < size; ++i) a += numbers_[i] * x(i), b += numbers_[size + i] * x(i);
      const double score = a * std::tanh(b), slope = -1 / (1 + std::exp(score)) / examples;
      loss += std::log1p(std::exp(-score)) / examples;
      for (std::uint64_t i = 0; gradient != nullptr && i < size; ++i) {
        gradient[i] += slope * std::tanh(b) * x(i);
        gradient[size + i] += slope * a * (1 - std::tanh(b) * std::tanh(b)) * x(i);
      }
    }
    return loss;
  }

  float numbers_[2 * size];
};

TEST(CheckGradients, PassesAGradientThatIsRight) {
  Model model;
  const GradientReport report = check_gradients(model.source());
  EXPECT_TRUE(report.passed());
  ASSERT_EQ(report.directions.size(), 20u);
  for (const DirectionSlope& one : report.directions) EXPECT_LT(one.relative_error(), gradient_tolerance);
}

TEST(CheckGradients, FindsATensorWhoseGradientIsTwoPercentTooLarge) {
  Model model;
  model.fault = [](std::span<float> gradient) {
    for (std::uint64_t i = size; i < 2 * size; ++i) gradient[i] *= 1.02f;
  };
  const GradientReport report = check_gradients(model.source());
  EXPECT_FALSE(report.passed());
  for (std::size_t d = 0; d < report.directions.size(); ++d) EXPECT_EQ(report.directions[d].right, d % 2 == 0) << d;
}

TEST(CheckGradients, FindsTheWrongSignOfAFewElements) {
  Model model;
  model.fault = [](std::span<float> gradient) {
    for (std::uint64_t i = 0; i < 8; ++i) gradient[i] = -gradient[i];
  };
  EXPECT_FALSE(check_gradients(model.source()).passed());
}

TEST(CheckGradients, NamesATensorThatDoesNotLearn) {
  Model model;
  model.fault = [](std::span<float> gradient) { std::ranges::fill(gradient.subspan(size), 0.0f); };
  GradientSource source = model.source();
  source.tensors[1].may_begin_at_zero = true;
  const GradientReport report = check_gradients(source);
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.tensors[0].fault, "");
  EXPECT_EQ(report.tensors[1].fault, "it is 0 behind an update");
}

TEST(CheckGradients, NamesATensorThatIsNotFinite) {
  Model model;
  model.fault = [](std::span<float> gradient) { gradient[3] = NAN; };
  const GradientReport report = check_gradients(model.source());
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.tensors[0].fault, "it is not finite before the first update");
}

}  // namespace
}  // namespace quern::runtime
