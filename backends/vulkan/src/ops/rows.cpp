// get_rows, set_rows, index_add and get_rows_backward; take.
#include "elementwise.hpp"
#include "tables.hpp"
#include "../shaders/modes.h"

namespace quern::vulkan {
namespace {

RowsParams params_of(const Tensor& table, const Tensor& index, const Tensor& x, const Tensor& predicate, Launcher& launcher) {
  RowsParams p{};
  p.table = table.data;
  p.index = index.data;
  p.x = x.data;
  p.predicate = predicate.data;
  p.faults = launcher.faults();
  p.table_stride = table.strides[0];
  p.x_stride = x.strides[0];
  p.table_step = static_cast<int>(table.strides[1]);
  p.x_step = static_cast<int>(x.strides[1]);
  p.index_step = static_cast<int>(index.strides[0]);
  p.x_dtype = static_cast<int>(x.dtype);
  p.index_dtype = static_cast<int>(index.dtype);
  p.count = static_cast<uint>(index.dims[0]);
  p.rows = static_cast<uint>(table.dims[0]);
  p.h = static_cast<uint>(table.dims[1]);
  return p;
}

std::string check_count(const Tensor& x) {
  return x.elements() >= std::int64_t{1} << 31 ? concat(describe(x), "; fewer than 2^31 elements are taken") : "";
}

std::string refuse_get(const Call& call) {
  const Tensor& table = call.input(0);
  return first_of({is_block(table.dtype) ? sdk::check_packed_rows(table) : "", check_count(call.output(0))});
}
void emit_get(const Call& call, Launcher& launcher) {
  const Tensor &table = call.input(0), &y = call.output(0);
  const bool wide = table.dtype != QUERN_I32 && table.dims[1] % 16 == 0 && sdk::has_packed_rows(table);
  const RowsParams p = params_of(table, call.input(1), y, {}, launcher);
  launcher.launch("get_rows", launcher.item_threads(), launcher.spread(y.elements() / (wide ? 16 : 1)), p,
                  {static_cast<std::int32_t>(table.dtype), wide ? 16 : 1, table.packed_layout ? 1 : 0});
}

std::string refuse_take(const Call& call) { return first_of({check_count(call.input(0)), check_count(call.output(0))}); }
void emit_take(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  const RowsParams p = params_of(x, call.input(1), y, {}, launcher);
  launcher.launch("take", launcher.item_threads(), launcher.spread(y.elements()), p, {static_cast<std::int32_t>(x.dtype)});
}

std::string refuse_write(const Call& call) {
  const Tensor& table = call.output(0);
  return first_of({is_block(table.dtype) ? sdk::check_packed_rows(table) : "", check_count(call.input(0))});
}
/// Of each index the next and the one before that have its row, and of each row the last.
std::uint64_t scratch_lists(const Call& call) { return static_cast<std::uint64_t>(2 * call.input(1).dims[0] + call.output(0).dims[0]) * 4; }
std::int64_t list_turns(const Call& call) { return 2 * call.input(1).dims[0] + 64; }
void write(const Call& call, std::int32_t mode, Launcher& launcher) {
  const Tensor &x = call.input(0), &table = call.output(0);
  if (x.elements() == 0) return;
  const std::int64_t unit = is_block(table.dtype) ? 32 : 1;
  RowsParams p = params_of(table, call.input(1), x, call.predicate, launcher);
  p.lists = call.scratch;
  launcher.launch("row_lists", launcher.item_threads(), {1, 1, 1}, p);
  launcher.barrier();
  launcher.launch("write_rows", launcher.item_threads(), launcher.spread(x.elements() / unit), p,
                  {static_cast<std::int32_t>(table.dtype), mode});
}
void emit_set(const Call& call, Launcher& launcher) { write(call, rows_last, launcher); }
void emit_add(const Call& call, Launcher& launcher) { write(call, rows_add, launcher); }
void emit_rows_backward(const Call& call, Launcher& launcher) {
  if (!call.flag(QUERN_KEY_ACCUMULATE)) {
    fill_view(call.output(0), 0, launcher);
    launcher.barrier();
  }
  write(call, rows_add_strictly, launcher);
}

constexpr Op rows_table[] = {
    offer(QUERN_OP_GET_ROWS, "get_rows.vulkan", refuse_get, emit_get),
    offer(QUERN_OP_TAKE, "take.vulkan", refuse_take, emit_take),
    offer(QUERN_OP_SET_ROWS, "set_rows.vulkan", refuse_write, emit_set, scratch_lists, true).with_turns(list_turns),
    offer(QUERN_OP_INDEX_ADD, "index_add.vulkan", refuse_write, emit_add, scratch_lists, true).with_turns(list_turns),
    offer(QUERN_OP_GET_ROWS_BACKWARD, "get_rows_backward.vulkan", refuse_write, emit_rows_backward, scratch_lists, true)
        .with_turns(list_turns),
};

}  // namespace

const std::span<const Op> rows_ops = rows_table;

}  // namespace quern::vulkan
