// Rows of x added to rows of a table. Kernels: row_lists and write_rows.
#include "rows.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_index_add(const Call& call, Launcher& launcher) { launch_written_rows(call, rows_add, launcher); }

}  // namespace

const Op index_add_op =
    offer(QUERN_OP_INDEX_ADD, "index_add.vulkan", refuse_written_rows, emit_index_add, scratch_lists, true).with_turns(list_turns);

}  // namespace quern::vulkan
