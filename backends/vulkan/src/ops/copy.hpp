// Copies between views, for ops that are made of such.
#pragma once

#include "../views.hpp"

namespace quern::vulkan {

/// y = x, of one shape and dtype. `predicate`: of one number a row of dim 0, or absent.
void copy_views(const Tensor& x, const Tensor& y, const Tensor& predicate, Launcher& launcher);

/// y = the blocks of x from this row and column on, as floats. y has the leading dims of x; x may be a matrix in planes.
void decode_blocks(const Tensor& x, std::int64_t first_row, std::int64_t first_column, const Tensor& y, Launcher& launcher);

}  // namespace quern::vulkan
