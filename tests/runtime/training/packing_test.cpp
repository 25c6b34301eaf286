#include "training_support.hpp"

#include "quern/training/order.hpp"
#include "quern/training/packing.hpp"
#include "quern/training/philox.hpp"

#include <numeric>

namespace quern::training {
namespace {

std::vector<std::uint32_t> some_lengths(std::uint32_t count, std::uint32_t most) {
  std::vector<std::uint32_t> lengths;
  for (std::uint32_t i = 0; i < count; ++i) lengths.push_back(1 + philox(7, i, 0, 0, Purpose::op)[0] % most);
  return lengths;
}

std::vector<std::vector<std::uint32_t>> lists(const MicroBatches& batches) {
  std::vector<std::vector<std::uint32_t>> all;
  for (std::size_t b = 0; b < batches.size(); ++b) all.emplace_back(batches[b].begin(), batches[b].end());
  return all;
}

TEST(MicroBatches, UnpackedAreNeighboursOfTheOrder) {
  const std::vector<std::uint32_t> lengths(10, 5);
  PackingOptions options;
  options.micro_batch_size = 4;
  const std::vector<std::uint32_t> order = epoch_order(10, 42, 3);
  const auto batches = lists(micro_batches(lengths, options, 42, 3));
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_EQ(batches[0], std::vector<std::uint32_t>(order.begin(), order.begin() + 4));
  EXPECT_EQ(batches[2], std::vector<std::uint32_t>(order.begin() + 8, order.end()));
  options.shuffle = false;
  EXPECT_EQ(lists(micro_batches(lengths, options, 42, 3))[0], (std::vector<std::uint32_t>{0, 1, 2, 3}));
}

// By hand: budget 10; longest first 7 (1), 6 (3), 4 (0), 3 (2), 3 (4): 7 + 3, 6 + 4, 3.
TEST(MicroBatches, PackedAreFirstFitDecreasing) {
  PackingOptions options;
  options.micro_batch_size = 1;
  options.sequence_len = 10;
  options.sample_packing = true;
  options.shuffle = false;
  const std::vector<std::uint32_t> lengths = {4, 7, 3, 6, 3};
  EXPECT_EQ(lists(micro_batches(lengths, options, 42, 0)), (std::vector<std::vector<std::uint32_t>>{{0, 3}, {1, 2}, {4}}));
}

TEST(MicroBatches, PackedHaveEachExampleOnceWithinTheBudgetAndItsWindow) {
  const std::vector<std::uint32_t> lengths = some_lengths(10'000, 512);
  PackingOptions options;
  options.micro_batch_size = 4;
  options.sequence_len = 512;
  options.sample_packing = true;
  const MicroBatches batches = micro_batches(lengths, options, 42, 1);
  std::vector<std::uint32_t> order = epoch_order(10'000, 42, 1), window_of(10'000);
  for (std::uint32_t place = 0; place < order.size(); ++place) window_of[order[place]] = place / packing_window;
  std::vector<int> seen(lengths.size());
  std::uint64_t rows = 0;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    std::uint64_t sum = 0;
    for (const std::uint32_t example : batches[b]) {
      sum += lengths[example];
      ++seen[example];
      EXPECT_EQ(window_of[example], window_of[batches[b].front()]);
    }
    EXPECT_LE(sum, 2048u);
    rows += sum;
  }
  EXPECT_EQ(std::ranges::count(seen, 1), 10'000);
  // Short examples fill the bins of a window but for its last few.
  EXPECT_GT(rows, batches.size() * 2048 * 97 / 100);
  EXPECT_EQ(lists(micro_batches(lengths, options, 42, 1)), lists(batches));
  EXPECT_NE(lists(micro_batches(lengths, options, 42, 2)), lists(batches));
}

TEST(MicroBatches, RefusesWhatFitsNoBatch) {
  PackingOptions options;
  options.sequence_len = 4;
  const std::vector<std::uint32_t> lengths = {4, 5};
  EXPECT_NE(test::error_of([&] { micro_batches(lengths, options, 42, 0); }).find("example 1 has 5 tokens"), std::string::npos);
  options.sequence_len = 0;
  EXPECT_NE(test::error_of([&] { micro_batches({}, options, 42, 0); }), "");
}

}  // namespace
}  // namespace quern::training
