// Which scale an element has: one of the tensor, of its row, of a group of its row, or of a block of rows and columns.
#pragma once

#include "quantised_modules.hpp"

#include <cstdint>

namespace quern::directory {

struct ScaleGrid {
  std::uint64_t row_step = 1, column_step = 1, in_row = 1;

  std::uint64_t at(std::uint64_t row, std::uint64_t column) const noexcept { return row / row_step * in_row + column / column_step; }
};

/// By the shape of the scales; blocks of the quantisation's sides may be cut at both ends. Throws Error(QUERN_BAD_MODEL) naming the scales for
/// a shape that does not fit the weight, or a dtype that holds none.
ScaleGrid scale_grid(const ModuleContext& context, const StoredTensor& scales, std::uint64_t rows, std::uint64_t columns);

}  // namespace quern::directory
