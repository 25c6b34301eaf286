// One type for each tensor within a size, against all ways to choose.
#include "type_budget.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace quern::runtime {
namespace {

using Options = std::vector<std::vector<TypeOption>>;

struct Sum {
  std::uint64_t bytes = 0;
  double error = 0;
};

Sum sum_of(const Options& options, const std::vector<std::size_t>& taken) {
  Sum sum;
  for (std::size_t i = 0; i < options.size(); ++i) {
    sum.bytes += options[i][taken[i]].bytes;
    sum.error += options[i][taken[i]].error;
  }
  return sum;
}

/// The least error of all choices within the budget.
double least_of_all(const Options& options, std::uint64_t budget) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> taken(options.size());
  for (;;) {
    const Sum sum = sum_of(options, taken);
    if (sum.bytes <= budget) least = std::min(least, sum.error);
    std::size_t i = 0;
    while (i < taken.size() && ++taken[i] == options[i].size()) taken[i++] = 0;
    if (i == taken.size()) return least;
  }
}

/// Sizes and errors as those of types are: an error falls to a quarter for each bit, more or less.
Options random_options(std::mt19937& random) {
  Options options(6);
  for (std::vector<TypeOption>& of_one : options) {
    const std::uint64_t elements = 32 * (1 + random() % 20);
    const double scale = static_cast<double>(1 + random() % 50);
    for (const std::uint64_t bits : {9, 10, 11, 12, 17}) {
      const double noise = 0.5 + static_cast<double>(random() % 1000) / 1000;
      of_one.push_back({QUERN_Q4_0, elements * bits / 16, scale * noise * std::exp2(-static_cast<double>(bits))});
    }
  }
  return options;
}

TEST(TypeBudget, IsTheBestOfAllChoicesWithinTheSize) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const Options options = random_options(random);
    std::uint64_t least = 0, most = 0;
    for (const auto& of_one : options) {
      least += of_one.front().bytes;
      most += of_one.back().bytes;
    }
    const std::uint64_t budget = least + random() % (most - least + 1);
    const Sum sum = sum_of(options, least_error(options, budget));
    EXPECT_LE(sum.bytes, budget);
    // At most 1,920 bytes lie between the smallest and the largest types: a step for each. Sums of six numbers have a few roundings.
    EXPECT_LE(sum.error, least_of_all(options, budget) * (1 + 1e-12)) << "round " << round;
  }
}

TEST(TypeBudget, ManyTensorsAreNoWorseThanOneTypeForAll) {
  std::mt19937 random(6);
  Options options;
  for (int tensors = 0; tensors < 1000; ++tensors)
    for (auto& of_one : random_options(random)) {
      for (TypeOption& option : of_one) option.bytes *= 1 << 20;
      options.push_back(std::move(of_one));
    }
  options.resize(1000);
  for (std::size_t type = 0; type < 5; ++type) {
    const Sum same = sum_of(options, std::vector<std::size_t>(options.size(), type));
    const Sum sum = sum_of(options, least_error(options, same.bytes));
    EXPECT_LE(sum.bytes, same.bytes);
    if (type == 0 || type == 4) EXPECT_LE(sum.error, same.error * (1 + 1e-12));  // all have that type, but where a smaller one is better
    else EXPECT_LT(sum.error, 0.9 * same.error);
  }
}

TEST(TypeBudget, ATypeThatAMixtureBeatsFillsWhatIsLeft) {
  // The middle type is above the line between the others, and nothing else fits in one byte.
  const Options options{{{QUERN_Q4_0, 1, 10}, {QUERN_Q5_0, 2, 9}, {QUERN_Q8_0, 3, 0}}};
  EXPECT_EQ(least_error(options, 1), std::vector<std::size_t>{0});
  EXPECT_EQ(least_error(options, 2), std::vector<std::size_t>{1});
  EXPECT_EQ(least_error(options, 3), std::vector<std::size_t>{2});
}

TEST(TypeBudget, TwoTensorsChangeTogether) {
  // By gain for a byte the first tensor takes its two bytes, and then the second's better step of three does not fit.
  const Options options{{{QUERN_Q4_0, 1, 5}, {QUERN_Q8_0, 3, 0}}, {{QUERN_Q4_0, 1, 7}, {QUERN_Q8_0, 4, 0}}};
  EXPECT_EQ(least_error(options, 5), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(least_error(options, 7), (std::vector<std::size_t>{1, 1}));
}

TEST(TypeBudget, TheSmallestTypesAloneMayFit) {
  const Options options{{{QUERN_Q8_0, 3, 0}, {QUERN_Q4_0, 1, 5}}, {{QUERN_F32, 4, 0}}};
  EXPECT_EQ(least_error(options, 5), (std::vector<std::size_t>{1, 0}));
}

}  // namespace
}  // namespace quern::runtime
