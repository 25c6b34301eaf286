// Weights of the packers' own programs decode to the numbers of their own decoders.
#include "packed_golden.hpp"

#include "block_packing.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace quern::test {
namespace {

class PackedWeights : public testing::TestWithParam<std::string> {};

TEST_P(PackedWeights, DecodeToTheNumbersOfThePacker) {
  for (const models::ActOrder act_order : {models::ActOrder::expanded, models::ActOrder::by_groups})
    EXPECT_EQ(PackedGolden(GetParam(), act_order).difference(directory::quantised_weight), "");
}

TEST_P(PackedWeights, InTheOrderOfActivationsStayBlocksByGroups) {
  const bool has_order = GetParam().find("act-order") != std::string::npos;
  const PackedGolden::Shape expanded = PackedGolden(GetParam(), models::ActOrder::expanded).shape(),
                            by_groups = PackedGolden(GetParam()).shape();
  EXPECT_EQ(expanded.is_expanded, has_order);
  EXPECT_FALSE(expanded.has_order);
  EXPECT_FALSE(by_groups.is_expanded);
  EXPECT_EQ(by_groups.has_order, has_order);
  EXPECT_TRUE(by_groups.is_block);
}

INSTANTIATE_TEST_SUITE_P(All, PackedWeights, testing::ValuesIn(packed_goldens()), [](const auto& info) { return test_name(info.param); });

/// Three parts of rows, and columns of more than one tile: codes of four bits in groups of 128.
class PackedParts : public testing::Test {
 protected:
  static constexpr std::uint64_t rows = 288, columns = 640, groups = columns / 128;

  static std::uint8_t code(std::uint64_t row, std::uint64_t column) { return static_cast<std::uint8_t>((3 * row + 5 * column) % 16); }

  directory::Codes codes(std::uint64_t tile_rows) const {
    directory::Codes made{QUERN_Q4_Z128, rows, columns, 128, {}, {}, {}, {}, {}};
    made.tile_rows = tile_rows;
    made.read = [](const directory::Tile& tile, std::uint8_t* out) {
      for (std::uint64_t row = 0; row < tile.rows; ++row, out += tile.pitch)
        for (std::uint64_t column = 0; column < tile.columns; ++column) out[column] = code(tile.row + row, tile.column + column);
    };
    made.read_pairs = [](const directory::Tile& tile, std::uint8_t* out) {
      for (std::uint64_t row = tile.row; row < tile.row + tile.rows; ++row, out += tile.pitch)
        for (std::uint64_t i = 0; i < tile.columns / 2; ++i) {
          const std::uint64_t column = tile.column + i / 16 * 32 + i % 16;
          out[i] = static_cast<std::uint8_t>(code(row, column) | code(row, column + 16) << 4);
        }
    };
    made.scales = directory::by_groups(128, [this](std::uint64_t row, std::uint64_t group) {
      return bad_.contains({row, group}) ? INFINITY : static_cast<float>(row + 1);
    });
    made.zeros =
        directory::by_groups(128, [](std::uint64_t row, std::uint64_t group) { return static_cast<std::uint32_t>((row + group) % 16); });
    return made;
  }
  /// All parts, the last one first.
  static std::vector<std::byte> backwards(const directory::Codes& codes, std::uint64_t heads) {
    std::vector<std::byte> made(rows * groups * 68);
    const gguf::TensorParts parts = directory::packed_blocks(codes, "", {made, rows, heads});
    EXPECT_EQ(parts.count, 3u);
    for (std::uint64_t i = parts.count; i-- > 0;) parts.make(i);
    return made;
  }

  std::set<std::pair<std::uint64_t, std::uint64_t>> bad_;
};

TEST_F(PackedParts, FillTheirRowsInAnyOrderWhereverTheseGo) {
  const std::vector<std::byte> in_order = backwards(codes(1), 0), interleaved = backwards(codes(128), 3);
  std::vector<float> numbers(rows * columns);
  quantize::decode(QUERN_Q4_Z128, in_order, numbers);
  for (std::uint64_t row = 0; row < rows; ++row)
    for (std::uint64_t column = 0; column < columns; ++column) {
      const int stored = code(row, column), zero = static_cast<int>((row + column / 128) % 16);
      ASSERT_EQ(numbers[row * columns + column], static_cast<float>(row + 1) * static_cast<float>(stored - zero)) << row << " " << column;
    }
  EXPECT_EQ(directory::rows_from_graph(interleaved, 3, rows), in_order);
}

TEST_F(PackedParts, NumbersThatColumnsByGroupsTakeFromWholeRows) {
  std::vector<std::uint32_t> turned(columns);
  for (std::uint32_t i = 0; i < columns; ++i) turned[i] = static_cast<std::uint32_t>(columns) - 1 - i;
  directory::Codes other = codes(128);
  other.order = turned;
  std::vector<float> numbers(rows * columns);
  quantize::decode(QUERN_Q4_Z128, backwards(other, 0), numbers);
  for (std::uint64_t row = 0; row < rows; ++row)
    for (std::uint64_t column = 0; column < columns; ++column) {
      const int stored = code(row, turned[column]), zero = static_cast<int>((row + column / 128) % 16);
      ASSERT_EQ(numbers[row * columns + column], static_cast<float>(row + 1) * static_cast<float>(stored - zero)) << row << " " << column;
    }
}

TEST_F(PackedParts, NameTheirFirstRowThatHasNoPlaceWhateverTheTile) {
  bad_ = {{7, 0}, {5, 4}, {5, 3}};
  for (const std::uint64_t tile_rows : {1u, 16u, 128u}) {
    try {
      backwards(codes(tile_rows), 0);
      FAIL();
    } catch (const Error& error) { EXPECT_STREQ(error.what(), "the scale of row 5, group 3 is not finite"); }
  }
}

}  // namespace
}  // namespace quern::test
