// Rows of q and k between Hugging Face's order and that of GGUF files of llama.
#include "quern/models/peft.hpp"

#include <gtest/gtest.h>

namespace quern::test {
namespace {

using peft::reorder_rows;
using peft::RowOrder;

TEST(PeftRows, HalvesBecomePairs) {
  // Two heads of four rows, each of one number.
  const std::vector<float> rows = {0, 1, 2, 3, 10, 11, 12, 13};
  EXPECT_EQ(reorder_rows(rows, 1, 2, RowOrder::halves, RowOrder::interleaved), (std::vector<float>{0, 2, 1, 3, 10, 12, 11, 13}));
  EXPECT_EQ(reorder_rows(rows, 1, 1, RowOrder::halves, RowOrder::interleaved), (std::vector<float>{0, 10, 1, 11, 2, 12, 3, 13}));
}

TEST(PeftRows, ARowStaysWhole) {
  const std::vector<float> rows = {0, 0.5f, 1, 1.5f, 2, 2.5f, 3, 3.5f};
  EXPECT_EQ(reorder_rows(rows, 2, 1, RowOrder::halves, RowOrder::interleaved), (std::vector<float>{0, 0.5f, 2, 2.5f, 1, 1.5f, 3, 3.5f}));
}

TEST(PeftRows, BackAndForthIsTheSame) {
  std::vector<float> rows(3 * 10 * 7);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
  const auto there = reorder_rows(rows, 7, 3, RowOrder::halves, RowOrder::interleaved);
  EXPECT_NE(there, rows);
  EXPECT_EQ(reorder_rows(there, 7, 3, RowOrder::interleaved, RowOrder::halves), rows);
  EXPECT_EQ(reorder_rows(rows, 7, 3, RowOrder::halves, RowOrder::halves), rows);
}

TEST(PeftRows, SizesThatAreNoHeadsAreRefused) {
  const std::vector<float> rows(12);
  for (const auto& [columns, heads] :
       {std::pair(5, 1), std::pair(1, 5), std::pair(1, 4), std::pair(0, 1), std::pair(1, 0), std::pair(-1, 1)})
    EXPECT_THROW(reorder_rows(rows, columns, heads, RowOrder::halves, RowOrder::interleaved), Error) << columns << " " << heads;
}

TEST(PeftRows, OnlyFilesOfLlamaArePaired) {
  EXPECT_EQ(peft::gguf_row_order("llama"), RowOrder::interleaved);
  for (const char* other : {"qwen2", "qwen3", "llama4x", ""}) EXPECT_EQ(peft::gguf_row_order(other), RowOrder::halves);
}

}  // namespace
}  // namespace quern::test
