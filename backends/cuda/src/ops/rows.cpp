// get_rows from any format, packed or not; set_rows of floats.
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string check_index(const Tensor& index) {
  if (index.dtype != QUERN_I32 && index.dtype != QUERN_I64) return concat(describe(index), "; indices are i32 or i64");
  return check_rank(index, 1);
}

std::string refuse_get(const Call& call) {
  const Tensor &table = call.input(0), &index = call.input(1), &y = call.output(0);
  if (!is_float(table.dtype) && !is_block(table.dtype)) return concat(describe(table), "; floats and block formats are taken");
  return first_of({check_rank(table, 2), check_packed(table), check_index(index), check_floats(y), check_rank(y, 2),
                   check_dim(y, 0, index.rank == 1 ? index.dims[0] : 0), check_dim(y, 1, table.last()),
                   y.strides[1] == static_cast<std::int64_t>(sdk::element_size(y.dtype).bytes) ? "" : "the rows of y are strided"});
}

void emit_get(const Call& call, Launcher& launcher) {
  const Tensor &table = call.input(0), &y = call.output(0);
  GetRowsParams p{};
  if (table.last() % 16 == 0) {
    p.table = blocks_of(table);
  } else {
    p.table.plane[0] = table.data;
    p.table.dtype = static_cast<int>(table.dtype);
  }
  p.index = view_of(call.input(1));
  p.y = y.data;
  p.y_dtype = static_cast<int>(y.dtype);
  p.h = table.last();
  p.rows = table.dims[0];
  p.y_stride = y.strides[0];
  p.faults = launcher.faults();
  launcher.launch("rows", "get_rows", {y.dims[0], 1, 1}, 256, p);
}

std::string refuse_set(const Call& call) {
  const Tensor &x = call.input(0), &index = call.input(1), &table = call.output(0);
  return first_of({check_floats(x), check_rank(x, 2), check_index(index), check_floats(table), check_rank(table, 2), check_packed(table),
                   check_dim(index, 0, x.dims[0]), check_dim(table, 1, x.last()),
                   x.strides[1] == static_cast<std::int64_t>(sdk::element_size(x.dtype).bytes) ? "" : "the rows of x are strided"});
}

void emit_set(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &table = call.output(0);
  const SetRowsParams p{view_of(x), view_of(call.input(1)), table.data,       static_cast<int>(table.dtype),
                        x.last(),   table.dims[0],          launcher.faults()};
  launcher.launch("rows", "set_rows", {x.dims[0], 1, 1}, 256, p);
}

constexpr Op table[] = {{QUERN_OP_GET_ROWS, "get_rows.cuda", refuse_get, emit_get},
                        {QUERN_OP_SET_ROWS, "set_rows.cuda", refuse_set, emit_set}};

}  // namespace

const std::span<const Op> rows_ops = table;

}  // namespace quern::cuda
