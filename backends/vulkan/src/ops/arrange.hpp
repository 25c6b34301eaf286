// What concat and pad, and repeat and sum_to, share.
#pragma once

#include "../views.hpp"

namespace quern::vulkan {

/// The part of y from `first` on along an axis that is as large as x.
Tensor part_of(const Tensor& y, const Tensor& x, std::int64_t axis, std::int64_t first);
/// An index of 32 bits walks over both: why that cannot count `large`.
std::string check_repeats(const Tensor& large);
/// `large` of the repeats of `small`, or `small` of their sums.
void launch_repeat(const Tensor& small, const Tensor& large, bool sums, Launcher& launcher);

}  // namespace quern::vulkan
