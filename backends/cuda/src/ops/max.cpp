// The largest of each row.
#include "row_reduction.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_max(const Call& call, Launcher& launcher) { launch_row_reduction(call, kernels::max_rows, launcher); }

}  // namespace

const Op max_op{QUERN_OP_MAX, "max.cuda", nullptr, emit_max};

}  // namespace quern::cuda
