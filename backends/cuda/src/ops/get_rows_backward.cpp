// dtable of get_rows: rows of dy added up. Kernels: add_rows, and clear_rows before it where nothing is kept.
#include "rows.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_get_rows_backward(const Call& call, Launcher& launcher) {
  launch_add_rows(call, false, call.integer(QUERN_KEY_ACCUMULATE) != 0, launcher);
}

}  // namespace

const Op get_rows_backward_op{QUERN_OP_GET_ROWS_BACKWARD, "get_rows_backward.cuda", nullptr, emit_get_rows_backward, nullptr, true};

}  // namespace quern::cuda
