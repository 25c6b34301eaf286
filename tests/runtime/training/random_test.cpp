// Order, split, initial values and dropout against tests/data/training/random.json, which Python wrote.
#include "training_support.hpp"

#include "quern/graph/sha256.hpp"
#include "quern/training/initial.hpp"
#include "quern/training/order.hpp"
#include "quern/training/philox.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <set>

namespace quern::training {
namespace {

const nlohmann::json& golden() {
  static const nlohmann::json read = nlohmann::json::parse(test::read_test_file("data/training/random.json"));
  return read;
}

// The known answers of the authors' library, Random123.
TEST(Philox, GivesThePublishedWords) {
  EXPECT_EQ(philox(0, 0, 0, 0, Purpose::op), (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x243f6a88, 0x85a308d3, 0x13198a2e, static_cast<Purpose>(0x03707344)),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DrawsBetweenZeroAndOne) {
  EXPECT_GT(uniform(0), 0.0f);
  EXPECT_EQ(uniform(0x7fffffff), 0.5f);
  EXPECT_EQ(uniform(UINT32_MAX), 1.0f);
}

TEST(EpochOrder, IsThatOfTheGoldens) {
  std::size_t compared = 0;
  for (const auto& [key, order] : golden()["order"].items()) {
    unsigned count = 0, epoch = 0;
    ASSERT_EQ(std::sscanf(key.c_str(), "n=%u,epoch=%u", &count, &epoch), 2);
    EXPECT_EQ(epoch_order(count, golden()["seed"], epoch), order.get<std::vector<std::uint32_t>>()) << key;
    ++compared;
  }
  EXPECT_EQ(compared, 4u);
}

TEST(SplitExamples, KeepsEachExampleOnceAndDependsOnTheSeed) {
  const Split split = split_examples(100, 10, 42);
  EXPECT_EQ(split.validation.size(), 10u);
  std::set<std::uint32_t> all(split.train.begin(), split.train.end());
  all.insert(split.validation.begin(), split.validation.end());
  EXPECT_EQ(all.size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(split.train));
  EXPECT_NE(split_examples(100, 10, 43).validation, split.validation);
  const Split more = split_examples(100, 11, 42);  // the smallest keys: one more example, the others stay
  EXPECT_TRUE(std::ranges::includes(more.validation, split.validation));
}

TEST(SplitExamples, RefusesToLeaveNothing) {
  EXPECT_NE(test::error_of([] { split_examples(10, 10, 42); }).find("10 examples of 10"), std::string::npos);
}

TEST(InitialA, HasTheBitsOfTheGoldens) {
  std::size_t compared = 0;
  for (const auto& [key, expected] : golden()["initial_a"].items()) {
    unsigned matrix = 0, rank = 0, k = 0;
    ASSERT_EQ(std::sscanf(key.c_str(), "matrix=%u,rank=%u,k=%u", &matrix, &rank, &k), 3);
    std::vector<float> a(std::size_t{rank} * k);
    fill_initial_a(a, k, matrix, golden()["seed"]);
    for (std::size_t i = 0; i < expected["first"].size(); ++i) EXPECT_EQ(a[i], expected["first"][i].get<float>()) << key << " " << i;
    Sha256 sum;
    sum.add(std::as_bytes(std::span(a)));
    EXPECT_EQ(sum.finish(), expected["sha256"].get<std::string>()) << key;
    ++compared;
  }
  EXPECT_EQ(compared, 4u);
  EXPECT_EQ(matrix_number(29, AdaptedMatrix::down), 209u);
}

TEST(InitialA, RefusesRowsThatAreNotWhole) {
  std::vector<float> a(10);
  EXPECT_NE(test::error_of([&] { fill_initial_a(a, 4, 0, 1); }).find("whole rows"), std::string::npos);
  EXPECT_NE(test::error_of([&] { fill_initial_a(a, 0, 0, 1); }), "");
}

// The op dropout keeps an element where u >= p (plugin-api/OPS.md), with u in f32.
TEST(Dropout, KeepsTheElementsOfTheGolden) {
  const nlohmann::json& dropout = golden()["dropout"];
  std::vector<int> kept;
  for (std::uint32_t i = 0; i < 64; ++i) {
    const PhiloxWords words = philox(golden()["seed"], i / 4, dropout["step"], dropout["salt"], Purpose::op);
    kept.push_back(uniform(words[i % 4]) >= dropout["p"].get<float>() ? 1 : 0);
  }
  EXPECT_EQ(kept, dropout["kept_of_first_64"].get<std::vector<int>>());
}

}  // namespace
}  // namespace quern::training
