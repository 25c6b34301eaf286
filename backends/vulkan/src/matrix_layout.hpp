// Asks the driver where the elements of cooperative matrices lie, by a kernel that writes down which element each component is.
#pragma once

#include "card.hpp"

#include <vector>

namespace quern::vulkan {

class Gpu;
class Memory;

constexpr std::uint32_t most_parts = 8;  // components of a lane that the kernels take

/// Of the device's shape. Rows are 0 where a row's elements are no fixed components of lanes that differ in some bits of their numbers.
/// `places`: memory that MatrixLayout::places is in.
MatrixLayout find_matrix_layout(Gpu& gpu, Memory& places);
/// Of a table as the kernel matrix_layout writes it: for each lane how many components, then `most` numbers of elements of sums, of a left matrix and of a right one.
MatrixLayout read_matrix_layout(const std::vector<std::uint32_t>& table, std::uint32_t lanes, std::uint32_t most, const MatrixShape& shape);
/// Of each element of a right matrix lane * most + component; empty where a lane has not `most` or the table is none of that.
std::vector<std::uint32_t> read_places(const std::vector<std::uint32_t>& table, std::uint32_t lanes, std::uint32_t most,
                                       const MatrixShape& shape);

}  // namespace quern::vulkan
