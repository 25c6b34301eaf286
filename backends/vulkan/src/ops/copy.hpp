// Copies between views, for ops that are made of such.
#pragma once

#include "../views.hpp"

namespace quern::vulkan {

/// y = x, of one shape and dtype. `predicate`: of one number a row of dim 0, or absent.
void copy_views(const Tensor& x, const Tensor& y, const Tensor& predicate, Launcher& launcher);

}  // namespace quern::vulkan
