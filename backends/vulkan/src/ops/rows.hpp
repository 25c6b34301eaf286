// What ops over rows of a table, chosen by an index, share.
#pragma once

#include "../op.hpp"
#include "../shaders/modes.h"

namespace quern::vulkan {

RowsParams row_params(const Tensor& table, const Tensor& index, const Tensor& x, const Tensor& predicate, Launcher& launcher);
std::string check_count(const Tensor& x);

/// Of ops that write rows.
std::string refuse_written_rows(const Call& call);
/// Of each index the next and the one before that have its row, and of each row the last.
std::uint64_t scratch_lists(const Call& call);
std::int64_t list_turns(const Call& call);
void launch_written_rows(const Call& call, std::int32_t mode, Launcher& launcher);

}  // namespace quern::vulkan
