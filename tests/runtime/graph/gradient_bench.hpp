// A graph whose gradients are compared with central differences, run by the reference interpreter in f64.
#pragma once

#include "quern/graph/differentiate.hpp"
#include "quern/graph/ops.hpp"
#include "reference_interpreter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace quern::test {

namespace ops = graph::ops;
using graph::Dim;
using graph::no_value;
using graph::Shape;
using graph::ValueId;

/// Numbers in [low, high), the same in every run.
class Numbers64 {
 public:
  double operator()(double low = -1, double high = 1) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return low + (high - low) * static_cast<double>(state_ >> 11) / 9007199254740992.0;
  }
  std::vector<double> list(std::size_t count, double low = -1, double high = 1) {
    std::vector<double> numbers(count);
    for (double& one : numbers) one = (*this)(low, high);
    return numbers;
  }

 private:
  std::uint64_t state_ = 1;
};

/// Builds a graph with random data, differentiates sum(r * y) for each y marked by loss(), and checks it.
class GradientBench {
 public:
  /// `dtype` is that of x(); `accumulate` adds to state instead of making new values.
  explicit GradientBench(quern_dtype dtype = QUERN_F32, bool accumulate = false) : activations(dtype), accumulate_(accumulate) {
    tokens = Dim(8, g.add_symbol({.name = "tokens", .min = 1, .max = 8}));
  }

  graph::Graph g{"gradients"};
  quern_dtype activations;
  Dim tokens = 0;  // ranged; 5 in each run
  static constexpr std::int64_t run_tokens = 5;
  graph::DifferentiateOptions options = {};

  /// A wanted value of the activations' dtype, of f32, or any.
  ValueId x(Shape shape, double low = -1, double high = 1) { return wanted(activations, std::move(shape), low, high); }
  ValueId f32(Shape shape, double low = -1, double high = 1) { return wanted(QUERN_F32, std::move(shape), low, high); }
  ValueId wanted(quern_dtype dtype, Shape shape, double low = -1, double high = 1) {
    const ValueId value = frozen(dtype, std::move(shape), low, high);
    want(value);
    return value;
  }
  void want(ValueId value) {
    const ValueId into = accumulate_ ? g.state("sum", QUERN_F32, g.value(value).shape) : no_value;
    wanted_.push_back({value, into});
  }
  /// A float that has no gradient.
  ValueId frozen(quern_dtype dtype, Shape shape, double low = -1, double high = 1) {
    const ValueId value = g.input("x" + std::to_string(g.values().size()), dtype, shape);
    data_[value] = numbers_.list(count(shape), low, high);
    return value;
  }
  ValueId constant(quern_dtype dtype, Shape shape) {
    const ValueId value = g.constant("w" + std::to_string(g.values().size()), dtype, shape);
    data_[value] = numbers_.list(count(shape));
    return value;
  }
  ValueId state(quern_dtype dtype, Shape shape) {
    const ValueId value = g.state("state" + std::to_string(g.values().size()), dtype, shape);
    data_[value] = numbers_.list(count(shape));
    return value;
  }
  ValueId integers(quern_dtype dtype, Shape shape, const std::vector<std::int64_t>& numbers) {
    const ValueId value = g.input("i" + std::to_string(g.values().size()), dtype, std::move(shape));
    data_[value].assign(numbers.begin(), numbers.end());
    return value;
  }
  ValueId i32(Shape shape, const std::vector<std::int64_t>& numbers) { return integers(QUERN_I32, std::move(shape), numbers); }

  void loss(ValueId y) {
    const ValueId r = g.input("r", g.value(y).dtype, g.value(y).shape);
    data_[r] = numbers_.list(count(g.value(y).shape));
    seeds_.push_back({y, r});
  }

  const std::vector<graph::GradientSeed>& seeds() const { return seeds_; }
  const std::vector<graph::GradientWanted>& wanted_values() const { return wanted_; }
  /// The results of differentiate().
  const std::vector<ValueId>& gradient_values() const { return gradients_; }
  /// What constants, states and inputs hold, at the extents of a run.
  const std::map<ValueId, std::vector<double>>& data() const { return data_; }
  void differentiate() {
    forward_ = g;
    gradients_ = graph::differentiate(g, seeds_, wanted_, options);
  }

  /// The gradients of all wanted values.
  std::vector<std::vector<double>> gradients() {
    std::map<ValueId, std::vector<double>> data = data_;
    for (const graph::GradientWanted& one : wanted_) {
      if (one.into == no_value) continue;
      std::vector<double>& sum = data[one.into];
      if (sum.empty()) sum = Numbers64().list(count(g.value(one.into).shape));
    }
    ReferenceInterpreter run = started(g, data);
    std::vector<std::vector<double>> found;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      found.push_back(run.get(gradients_[i]));
      if (wanted_[i].into == no_value) continue;
      const std::vector<double> start = Numbers64().list(found[i].size());
      for (std::size_t k = 0; k < start.size(); ++k) found[i][k] -= start[k];
    }
    return found;
  }

  /// Any values after one run; states that were never set begin at 0.
  std::vector<std::vector<double>> values(const std::vector<ValueId>& wanted) {
    ReferenceInterpreter run = started(g, data_);
    std::vector<std::vector<double>> found;
    for (const ValueId value : wanted) found.push_back(run.get(value));
    return found;
  }

  /// Compares the gradients with central differences along random directions, of each wanted value by itself.
  void check() {
    ASSERT_NO_FATAL_FAILURE(prepare());
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      for (int direction = 0; direction < 3; ++direction) {
        SCOPED_TRACE("wanted value " + std::to_string(i));
        compare({i});
      }
  }
  /// The same along directions of all wanted values at once, for models with many of them.
  void check_together(int directions) {
    ASSERT_NO_FATAL_FAILURE(prepare());
    std::vector<std::size_t> all(wanted_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    for (int direction = 0; direction < directions; ++direction) compare(all);
  }

 private:
  static std::size_t count(const Shape& shape) {
    std::int64_t count = 1;
    for (const Dim& dim : shape) count *= dim.symbol ? run_tokens : dim.size;
    return static_cast<std::size_t>(count);
  }
  ReferenceInterpreter started(const graph::Graph& graph, const std::map<ValueId, std::vector<double>>& data) {
    ReferenceInterpreter run(graph);
    run.extent(tokens.symbol, run_tokens);
    for (const auto& [value, numbers] : data)
      if (value < graph.values().size()) run.set(value, numbers);
    run.run();
    EXPECT_FALSE(run.index_fault());
    return run;
  }
  void prepare() {
    ASSERT_NO_THROW(differentiate());
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      EXPECT_EQ(g.value(gradients_[i]).shape, g.value(wanted_[i].value).shape) << "of wanted value " << i;
    found_ = gradients();
    for (const std::vector<double>& one : found_)
      EXPECT_TRUE(std::ranges::any_of(one, [](double x) { return x != 0; })) << "a gradient of zeros proves nothing";
  }
  void compare(const std::vector<std::size_t>& moved) {
    constexpr double step = 1e-5;
    std::map<ValueId, std::vector<double>> ahead = data_, behind = data_;
    double expected = 0, size = 0;
    for (const std::size_t i : moved) {
      const std::vector<double> along = numbers_.list(found_[i].size());
      for (std::size_t k = 0; k < along.size(); ++k) {
        expected += found_[i][k] * along[k], size += std::fabs(found_[i][k] * along[k]);
        ahead.at(wanted_[i].value)[k] += step * along[k];
        behind.at(wanted_[i].value)[k] -= step * along[k];
      }
    }
    // The third derivative times step^2 / 6, and the rounding of f64 over the step.
    EXPECT_NEAR(expected, (loss_of(ahead) - loss_of(behind)) / (2 * step), 1e-6 * (1 + size));
  }
  /// Runs the forward graph alone.
  double loss_of(const std::map<ValueId, std::vector<double>>& data) {
    ReferenceInterpreter run = started(forward_, data);
    double loss = 0;
    for (const graph::GradientSeed& seed : seeds_) {
      const std::vector<double> y = run.get(seed.value), r = run.get(seed.gradient);
      for (std::size_t k = 0; k < y.size(); ++k) loss += r[k] * y[k];
    }
    return loss;
  }

  bool accumulate_;
  Numbers64 numbers_;
  std::map<ValueId, std::vector<double>> data_;
  std::vector<graph::GradientSeed> seeds_;
  std::vector<graph::GradientWanted> wanted_;
  std::vector<ValueId> gradients_;
  graph::Graph forward_{"forward"};
  std::vector<std::vector<double>> found_;
};

}  // namespace quern::test
