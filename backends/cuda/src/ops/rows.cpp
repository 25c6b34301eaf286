// get_rows from any format; set_rows, index_add, get_rows_backward; take.
#include "../kernels/index.hpp"

#include "arrange.hpp"
#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string check_index(const Tensor& index) {
  if (index.dtype != QUERN_I32 && index.dtype != QUERN_I64) return concat(describe(index), "; indices are i32 or i64");
  return check_rank(index, 1);
}

/// `x` has a row of the table's length for each index.
std::string check_table(const Tensor& table, const Tensor& index, const Tensor& x) {
  return first_of({check_rank(table, 2), check_index(index), check_rank(x, 2), check_dim(x, 0, index.rank == 1 ? index.dims[0] : 0),
                   x.rank == 2 && table.rank == 2 ? check_dim(x, 1, table.last()) : ""});
}

IndexParams params_of(const Tensor& table, const Tensor& index, const Tensor& x, Launcher& launcher) {
  IndexParams p{};
  p.table = rows_of(table);
  p.index = rows_of(index);
  p.x = rows_of(x);
  if (is_block(table.dtype)) {
    Tensor start = table;
    if (!table.packed_layout) start.data = 0;
    p.pieces = blocks_of(start);
    p.plane_rows = table.packed_layout;
  }
  p.h = table.last();
  p.rows = table.dims[0];
  p.count = index.dims[0];
  p.faults = launcher.faults();
  return p;
}

std::string refuse_get(const Call& call) {
  const Tensor &table = call.input(0), &y = call.output(0);
  const bool integers = table.dtype == QUERN_I32;
  if (!integers && !is_float(table.dtype) && !is_block(table.dtype)) return concat(describe(table), "; floats, blocks and i32 are taken");
  return first_of({check_table(table, call.input(1), y), table.packed_layout ? "" : check_units(table),
                   integers ? check_dtype(y, QUERN_I32) : check_floats(y)});
}

void emit_get(const Call& call, Launcher& launcher) {
  const IndexParams p = params_of(call.input(0), call.input(1), call.output(0), launcher);
  launcher.launch(kernels::get_rows, {p.count, 1, 1}, p.h <= 64 ? 64 : 256, p);
}

std::string refuse_set(const Call& call) {
  const Tensor &x = call.input(0), &table = call.output(0);
  if (!is_float(table.dtype) && table.dtype != QUERN_Q8_0 && table.dtype != QUERN_Q4_0)
    return concat(describe(table), "; rows are set in f32, f16, bf16, q8_0 and q4_0");
  return first_of({check_floats(x), check_table(table, call.input(1), x), check_units(table)});
}

void emit_set(const Call& call, Launcher& launcher) {
  IndexParams p = params_of(call.output(0), call.input(1), call.input(0), launcher);
  p.skips = 1;
  p.live = live_of(call);
  launcher.launch(kernels::set_rows, {p.count, 1, 1}, 256, p);
}

std::string refuse_add(const Call& call) {
  const Tensor &x = call.input(0), &table = call.output(0);
  return first_of({check_floats(x), check_floats(table), check_table(table, call.input(1), x)});
}

void emit_add(const Call& call, Launcher& launcher) {
  IndexParams p = params_of(call.output(0), call.input(1), call.input(0), launcher);
  p.live = live_of(call);
  p.skips = call.op == QUERN_OP_INDEX_ADD;
  p.accumulate = call.op == QUERN_OP_INDEX_ADD || call.integer(QUERN_KEY_ACCUMULATE) != 0;
  if (!p.accumulate) launcher.launch(kernels::clear_rows, launcher.spread(p.rows * p.h), 256, p);
  launcher.launch(kernels::add_rows, {p.count, 1, 1}, 256, p);
}

std::string refuse_take(const Call& call) {
  const Tensor &x = call.input(0), &index = call.input(1), &y = call.output(0);
  if (std::string why = first_of({check_floats(x), check_rank(x, 2), check_index(index), check_floats(y), check_rank(y, 2)}); !why.empty())
    return why;
  return first_of({check_dim(y, 0, x.dims[0]), check_dim(y, 1, index.dims[0])});
}

void emit_take(const Call& call, Launcher& launcher) {
  const IndexParams p = params_of(call.input(0), call.input(1), call.output(0), launcher);
  launcher.launch(kernels::take, launcher.spread(p.rows * p.count), 256, p);
}

constexpr Op table[] = {{QUERN_OP_GET_ROWS, "get_rows.cuda", refuse_get, emit_get, nullptr, false, all_packed},
                        {QUERN_OP_GET_ROWS_BACKWARD, "get_rows_backward.cuda", refuse_add, emit_add, nullptr, true},
                        {QUERN_OP_SET_ROWS, "set_rows.cuda", refuse_set, emit_set, nullptr, true},
                        {QUERN_OP_INDEX_ADD, "index_add.cuda", refuse_add, emit_add, nullptr, true},
                        {QUERN_OP_TAKE, "take.cuda", refuse_take, emit_take}};

}  // namespace

const std::span<const Op> rows_ops = table;

}  // namespace quern::cuda
