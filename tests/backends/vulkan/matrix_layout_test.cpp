// What the kernels are told of a driver's matrices, from tables as the kernel matrix_layout writes them.
#include "matrix_layout.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace quern::vulkan {
namespace {

using Element = std::function<std::uint32_t(std::uint32_t lane, std::uint32_t part)>;

std::vector<std::uint32_t> table_of(std::uint32_t lanes, const Element& sums, const Element& left, const Element& right) {
  std::vector<std::uint32_t> table;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    table.push_back(8);
    for (const Element* matrix : {&sums, &left, &right})
      for (std::uint32_t part = 0; part < 8; ++part) table.push_back((*matrix)(lane, part));
  }
  return table;
}

// As an NVIDIA H200 has them (driver 580): a lane has two rows, eight apart, four lanes share them.
std::uint32_t of_nvidia(std::uint32_t lane, std::uint32_t part) {
  return (lane / 4 + part / 4 * 8) * 16 + lane % 4 * 2 + part % 2 + part / 2 % 2 * 8;
}
std::uint32_t right_of_nvidia(std::uint32_t lane, std::uint32_t part) {
  return (lane % 4 * 2 + part % 2 + part / 2 % 2 * 8) * 16 + lane / 4 + part / 4 * 8;
}
// As Mesa's llvmpipe has them: a lane a column.
std::uint32_t of_llvmpipe(std::uint32_t lane, std::uint32_t part) { return part * 8 + lane; }
std::uint32_t right_of_llvmpipe(std::uint32_t lane, std::uint32_t part) { return lane * 8 + part; }

constexpr MatrixShape sixteen = {16, 16, 16}, eight = {8, 8, 8};

TEST(MatrixLayout, OfAnNvidiaCard) {
  const MatrixLayout layout = read_matrix_layout(table_of(32, of_nvidia, of_nvidia, right_of_nvidia), 32, 8, sixteen);
  EXPECT_EQ(layout.rows, 2u);
  EXPECT_EQ(layout.rows_of_parts, 0x11110000u);
  EXPECT_EQ(layout.lanes, 3u);
  EXPECT_TRUE(layout.left_like_sums);
  EXPECT_TRUE(layout.by_fours);
}

TEST(MatrixLayout, FoursOnlyWhereAllThreeMatricesLieSo) {
  const auto exchanged = [](const Element& of) { return [of](std::uint32_t lane, std::uint32_t part) { return of(lane, part ^ 2); }; };
  const Element sums = of_nvidia, right = right_of_nvidia;
  EXPECT_FALSE(read_matrix_layout(table_of(32, exchanged(sums), sums, right), 32, 8, sixteen).by_fours);
  EXPECT_FALSE(read_matrix_layout(table_of(32, sums, exchanged(sums), right), 32, 8, sixteen).by_fours);
  EXPECT_FALSE(read_matrix_layout(table_of(32, sums, sums, exchanged(right)), 32, 8, sixteen).by_fours);
  EXPECT_TRUE(read_matrix_layout(table_of(32, sums, exchanged(sums), exchanged(right)), 32, 8, sixteen)
                  .by_fours);  // k in another order, the same in both
}

TEST(MatrixLayout, OfLlvmpipe) {
  const MatrixLayout layout = read_matrix_layout(table_of(8, of_llvmpipe, of_llvmpipe, right_of_llvmpipe), 8, 8, eight);
  EXPECT_EQ(layout.rows, 8u);
  EXPECT_EQ(layout.rows_of_parts, 0x76543210u);
  EXPECT_EQ(layout.lanes, 7u);
  EXPECT_TRUE(layout.left_like_sums);
}

TEST(MatrixLayout, LeftMatricesMayLieOtherwise) {
  const MatrixLayout layout = read_matrix_layout(table_of(8, of_llvmpipe, right_of_llvmpipe, right_of_llvmpipe), 8, 8, eight);
  EXPECT_EQ(layout.rows, 8u);
  EXPECT_FALSE(layout.left_like_sums);
}

TEST(MatrixLayout, RowsThatAreNotOfFixedLanesAreNotTaken) {
  const auto turned = [](std::uint32_t lane, std::uint32_t part) {
    return (part + lane) % 8 * 8 + lane;
  };  // every lane begins at another row
  EXPECT_EQ(read_matrix_layout(table_of(8, turned, turned, turned), 8, 8, eight).rows, 0u);
  const auto mixed = [](std::uint32_t lane, std::uint32_t part) {
    return lane < 4 ? of_llvmpipe(lane, part) : right_of_llvmpipe(lane, part);
  };
  EXPECT_EQ(read_matrix_layout(table_of(8, mixed, mixed, mixed), 8, 8, eight).rows, 0u);
  const auto twice = [](std::uint32_t, std::uint32_t part) { return part * 8; };
  EXPECT_EQ(read_matrix_layout(table_of(8, twice, twice, twice), 8, 8, eight).rows, 0u);
}

TEST(MatrixLayout, PlacesOfRightMatrices) {
  const std::vector<std::uint32_t> places = read_places(table_of(32, of_nvidia, of_nvidia, right_of_nvidia), 32, 8, sixteen);
  ASSERT_EQ(places.size(), 256u);
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    for (std::uint32_t part = 0; part < 8; ++part) EXPECT_EQ(places[right_of_nvidia(lane, part)], lane * 8 + part);
  EXPECT_TRUE(read_places(table_of(32, of_nvidia, of_nvidia, right_of_nvidia), 32, 8, {16, 8, 16}).empty());
}

}  // namespace
}  // namespace quern::vulkan
