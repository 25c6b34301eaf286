// Rows of x to rows of a table, encoded. Kernels: row_lists and write_rows.
#include "rows.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_set_rows(const Call& call, Launcher& launcher) { launch_written_rows(call, rows_last, launcher); }

}  // namespace

const Op set_rows_op =
    offer(QUERN_OP_SET_ROWS, "set_rows.vulkan", refuse_written_rows, emit_set_rows, scratch_lists, true).with_turns(list_turns);

}  // namespace quern::vulkan
