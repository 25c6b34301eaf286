// dtable of get_rows: rows of dy added up. Kernels: row_lists and write_rows.
#include "elementwise.hpp"
#include "rows.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_get_rows_backward(const Call& call, Launcher& launcher) {
  if (!call.flag(QUERN_KEY_ACCUMULATE)) {
    fill_view(call.output(0), 0, launcher);
    launcher.barrier();
  }
  launch_written_rows(call, rows_add_strictly, launcher);
}

}  // namespace

const Op get_rows_backward_op =
    offer(QUERN_OP_GET_ROWS_BACKWARD, "get_rows_backward.vulkan", refuse_written_rows, emit_get_rows_backward, scratch_lists, true)
        .with_turns(list_turns);

}  // namespace quern::vulkan
