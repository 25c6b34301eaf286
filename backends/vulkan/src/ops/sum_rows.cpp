// The sum of each row. Kernel: reduce.
#include "reduce.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_sum_rows(const Call& call, Launcher& launcher) { launch_row_reduction(call, reduce_sum, launcher); }

}  // namespace

const Op sum_rows_op = offer(QUERN_OP_SUM_ROWS, "sum_rows.vulkan", nullptr, emit_sum_rows);

}  // namespace quern::vulkan
