// Rows of a table of any format.
#include "rows.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_get_rows(const Call& call) {
  const Tensor& table = call.input(0);
  return first_of({is_block(table.dtype) ? sdk::check_packed_rows(table) : "", check_count(call.output(0))});
}
void emit_get_rows(const Call& call, Launcher& launcher) {
  const Tensor &table = call.input(0), &y = call.output(0);
  const bool wide = table.dtype != QUERN_I32 && table.dims[1] % 16 == 0 && sdk::has_packed_rows(table);
  const RowsParams p = row_params(table, call.input(1), y, {}, launcher);
  launcher.launch("get_rows", launcher.item_threads(), launcher.spread(y.elements() / (wide ? 16 : 1)), p,
                  {static_cast<std::int32_t>(table.dtype), wide ? 16 : 1, table.packed_layout ? 1 : 0});
}

}  // namespace

const Op get_rows_op = offer(QUERN_OP_GET_ROWS, "get_rows.vulkan", refuse_get_rows, emit_get_rows);

}  // namespace quern::vulkan
