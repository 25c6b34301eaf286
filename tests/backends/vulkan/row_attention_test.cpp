// Attention of one row behind few keys and behind many, whose parts several workgroups have: one recording serves every position, and a page out of range
// makes the row zero whichever part needs it.
#include "sample_fixture.hpp"

#include <string>

namespace {

using namespace quern_test;

constexpr std::int64_t heads = 6, kv_heads = 2, head = 64, page = 16, pages = 24, room = pages * page;
constexpr std::int64_t row = kv_heads * head;

class VulkanRowAttention : public SampleTest {
 protected:
  void SetUp() override {
    SampleTest::SetUp();
    const auto input = [&](std::vector<std::int64_t> dims, quern_dtype dtype = QUERN_F32) {
      return graph_.value(QUERN_VALUE_INPUT, std::move(dims), dtype);
    };
    const auto q = input({1, heads, head}), k = input({1, kv_heads, head}), angles = input({room, head / 2, 2}),
               slot = input({1}, QUERN_I32);
    v_ = input({1, kv_heads, head});
    table_ = input({1, pages}, QUERN_I32);
    position_ = input({1}, QUERN_I32);
    const std::vector<std::int64_t> cache = {pages, kv_heads, page, head};
    const auto keys = graph_.value(QUERN_VALUE_STATE, cache), values = graph_.value(QUERN_VALUE_STATE, cache),
               y = graph_.value(QUERN_VALUE_OUTPUT, {1, heads, head});
    const auto turned_q = graph_.value(QUERN_VALUE_INTERNAL, {1, heads, head}),
               turned_k = graph_.value(QUERN_VALUE_INTERNAL, {1, kv_heads, head});
    graph_.node(QUERN_OP_ROPE, {q, position_, angles}, {turned_q});
    graph_.node(QUERN_OP_ROPE, {k, position_, angles}, {turned_k});
    graph_.node(QUERN_OP_KV_WRITE, {turned_k, table_, slot, position_}, {keys});
    graph_.node(QUERN_OP_KV_WRITE, {v_, table_, slot, position_}, {values});
    graph_.node(QUERN_OP_ATTENTION, {turned_q, keys, values, table_, slot, position_}, {y}, {real(QUERN_KEY_SCALE, 1)});
    for (std::int32_t p = 0; p < pages; ++p) pages_of_sequence_.push_back((p * 7 + 3) % pages);
    // A value is its position, and so is each of its elements; all keys weigh the same.
    std::vector<float> stored(pages * kv_heads * page * head);
    for (std::int64_t at = 0; at < room; ++at)
      for (std::int64_t h = 0; h < kv_heads; ++h)
        for (std::int64_t i = 0; i < head; ++i)
          stored[((pages_of_sequence_[at / page] * kv_heads + h) * page + at % page) * head + i] = static_cast<float>(at);
    const std::vector<float> zeros(heads * head);
    at_y_ = holding(zeros);
    ready_ = ready(graph_, {{q, holding(zeros)},
                            {k, holding(std::vector<float>(row))},
                            {v_, holding(std::vector<float>(row))},
                            {table_, holding(pages_of_sequence_)},
                            {slot, holding(std::vector<std::int32_t>{0})},
                            {position_, holding(std::vector<std::int32_t>{0})},
                            {angles, holding(std::vector<float>(room * head))},
                            {keys, holding(std::vector<float>(stored.size()))},
                            {values, holding(stored)},
                            {y, at_y_}});
    ASSERT_EQ(ready_.prepared, QUERN_OK) << error.text();
  }
  void TearDown() override {
    drop(ready_);
    SampleTest::TearDown();
  }

  quern_run_status attend(std::int32_t position, const std::vector<std::int32_t>& table) {
    const std::vector<float> value(row, static_cast<float>(position));
    const quern_run_status status =
        run(ready_, {{v_, 0, 0, row * 4, value.data()}, {table_, 0, 0, pages * 4, table.data()}, {position_, 0, 0, 4, &position}});
    EXPECT_EQ(status.code, QUERN_OK) << error.text();
    return status;
  }
  /// The mean of 0 to `position` in every element: sums of whole numbers are exact, so a division and some products by 1 are what rounds.
  void expect_mean(std::int32_t position) {
    EXPECT_EQ(attend(position, pages_of_sequence_).faults, 0u) << position;
    const std::vector<float> y = contents(at_y_);
    for (const float found : y) ASSERT_NEAR(found, static_cast<float>(position) / 2, 1e-6f * static_cast<float>(position)) << position;
  }

  GraphBuilder graph_;
  std::uint32_t v_ = 0, table_ = 0, position_ = 0;
  std::vector<std::int32_t> pages_of_sequence_;
  quern_span at_y_ = {};
  Ready ready_;
};

TEST_F(VulkanRowAttention, OneRecordingServesEveryPosition) {
  for (const std::int32_t position : {383, 0, 5, 23, 24, 25, 127, 128, 129, 200, 383, 64}) expect_mean(position);
}

TEST_F(VulkanRowAttention, APageOutOfRangeMakesTheRowZero) {
  for (const std::int32_t missing : {0, 11, 23}) {
    std::vector<std::int32_t> table = pages_of_sequence_;
    table[static_cast<std::size_t>(missing)] = pages;
    EXPECT_EQ(attend(380, table).faults, QUERN_FAULT_INDEX_RANGE) << missing;
    for (const float found : contents(at_y_)) ASSERT_EQ(found, 0.0f) << missing;
    expect_mean(381);
  }
}

}  // namespace
