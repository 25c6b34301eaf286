// Codes in words, for numbers of rows that fill no tile: by the place of each code in its word.
#include "packed_golden.hpp"

#include "awq_words.hpp"
#include "block_packing.hpp"

#include "quern/models/floats.hpp"
#include "quern/models/safetensors.hpp"

#include <gtest/gtest.h>

#include <random>

namespace quern::test {
namespace {

using safetensors::Dtype;

struct Size {
  std::uint64_t rows, columns, group;
};

/// A directory of one weight with random words.
class WordsOf : public testing::TestWithParam<Size> {
 protected:
  std::vector<std::byte> random_words(std::uint64_t count) {
    std::vector<std::uint32_t> words(count);
    for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random_());
    const auto bytes = std::as_bytes(std::span(words));
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::byte> scales() const {
    std::vector<float> numbers;
    for (std::uint64_t group = 0; group < columns / size; ++group)
      for (std::uint64_t row = 0; row < rows; ++row) numbers.push_back(scale(row, group));
    return models::encode_floats(QUERN_F16, numbers);
  }
  static float scale(std::uint64_t row, std::uint64_t group) { return static_cast<float>(row % 64 + 1) + static_cast<float>(group) / 16; }

  /// Numbers by the reader of the method, in the order of the model's columns.
  std::vector<float> numbers(directory::Method method, std::vector<safetensors::NewTensor> tensors) const {
    const ScratchFolder scratch;
    for (safetensors::NewTensor& tensor : tensors) tensor.name = "model.layers.0.mlp.up_proj." + tensor.name;
    safetensors::write(scratch.path("model.safetensors"), tensors);
    const directory::Shards shards = directory::read_shards(scratch.path(""));
    directory::Quantisation how{method, 4, size};
    how.act_order = models::ActOrder::by_groups;
    const directory::ModuleContext context{shards, how};
    return numbers_of(context, directory::quantised_weight(context, directory::find_modules(context).all.at(0)));
  }

  /// The code, less its zero point, of a row and column.
  template <typename Code, typename Zero, typename Group>
  void expect(const std::vector<float>& found, const Code& code, const Zero& zero, const Group& group) const {
    for (std::uint64_t row = 0; row < rows; ++row)
      for (std::uint64_t column = 0; column < columns; ++column) {
        const std::uint64_t g = group(column);
        const int stored = static_cast<int>(code(row, column)) - static_cast<int>(zero(row, g));
        ASSERT_EQ(found[row * columns + column], scale(row, g) * static_cast<float>(stored)) << row << " " << column;
      }
  }

  static std::uint32_t nibble(const std::vector<std::byte>& words, std::uint64_t word, std::uint64_t i) {
    return directory::word_at(words, word) >> 4 * i & 15;
  }

  const std::uint64_t rows = GetParam().rows, columns = GetParam().columns, size = GetParam().group;
  std::mt19937 random_{7};
};

TEST_P(WordsOf, AwqAlongRows) {
  const std::uint64_t words = rows / 8;
  const std::vector<std::byte> codes = random_words(columns * words), zeros = random_words(columns / size * words), scale = scales();
  const std::vector<float> found = numbers(directory::Method::awq, {{"qweight", Dtype::i32, {columns, words}, codes},
                                                                    {"qzeros", Dtype::i32, {columns / size, words}, zeros},
                                                                    {"scales", Dtype::f16, {columns / size, rows}, scale}});
  const auto at = [&](const std::vector<std::byte>& from, std::uint64_t line, std::uint64_t row) {
    return nibble(from, line * words + row / 8, directory::nibble_of_row[row % 8]);
  };
  expect(
      found, [&](std::uint64_t row, std::uint64_t column) { return at(codes, column, row); },
      [&](std::uint64_t row, std::uint64_t group) { return at(zeros, group, row); }, [&](std::uint64_t column) { return column / size; });
}

TEST_P(WordsOf, GptqAlongColumnsWhateverTheirGroups) {
  const std::vector<std::byte> codes = random_words(columns / 8 * rows), zeros = random_words(columns / size * rows / 8), scale = scales();
  std::vector<std::uint32_t> group_of(columns);
  for (std::uint32_t i = 0; i < columns; ++i) group_of[i] = i / static_cast<std::uint32_t>(size);
  for (const bool in_order : {true, false}) {
    if (!in_order) std::ranges::shuffle(group_of, random_);
    const auto index = std::as_bytes(std::span(group_of));
    const std::vector<float> found = numbers(directory::Method::gptq, {{"qweight", Dtype::i32, {columns / 8, rows}, codes},
                                                                       {"qzeros", Dtype::i32, {columns / size, rows / 8}, zeros},
                                                                       {"scales", Dtype::f16, {columns / size, rows}, scale},
                                                                       {"g_idx", Dtype::i32, {columns}, index}});
    expect(
        found, [&](std::uint64_t row, std::uint64_t column) { return nibble(codes, column / 8 * rows + row, column % 8); },
        [&](std::uint64_t row, std::uint64_t group) { return nibble(zeros, (group * rows + row) / 8, row % 8); },
        [&](std::uint64_t column) { return group_of[column]; });
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, WordsOf, testing::Values(Size{8, 32, 32}, Size{24, 160, 32}, Size{136, 384, 128}, Size{280, 448, 64}),
                         [](const auto& info) { return concat(info.param.rows, "x", info.param.columns, "by", info.param.group); });

}  // namespace
}  // namespace quern::test
