// Elementwise steps of other ops.
#pragma once

#include "../views.hpp"

namespace quern::vulkan {

/// y = x in the dtype of y: floats and i32.
void cast_view(const Tensor& x, const Tensor& y, Launcher& launcher);
/// Every element of y is value: floats and i32.
void fill_view(const Tensor& y, double value, Launcher& launcher);

}  // namespace quern::vulkan
