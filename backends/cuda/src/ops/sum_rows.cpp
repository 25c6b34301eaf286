// The sum of each row. Kernels: sum_along or sum_across, and sum_parts.
#include "sum.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_sum_rows(const Call& call, Launcher& launcher) { launch_sum(call, sum_plain, false, launcher); }

}  // namespace

const Op sum_rows_op{QUERN_OP_SUM_ROWS, "sum_rows.cuda", nullptr, emit_sum_rows, scratch_sum};

}  // namespace quern::cuda
