// What reductions of rows and of whole tensors launch.
#pragma once

#include "../views.hpp"

namespace quern::vulkan {

/// As in shaders/reduce.comp.
enum ReducedRow : std::int32_t { reduce_max = 0, reduce_sum = 1, reduce_log_sum_exp = 2, reduce_argmax = 3 };
void launch_row_reduction(const Call& call, ReducedRow op, Launcher& launcher);

enum ReducedWhole : std::int32_t { whole_sum = 0, whole_norm = 1, whole_mean = 2, whole_equal = 3 };
/// Of sums a part has 2^29 elements, and there are 64; a count is one of 32 bits.
std::string refuse_whole_sum(const Call& call);
std::string refuse_whole_count(const Call& call);
std::uint64_t scratch_whole(const Call& call);
void launch_whole_reduction(const Call& call, ReducedWhole op, Launcher& launcher);

}  // namespace quern::vulkan
