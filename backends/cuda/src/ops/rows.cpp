// get_rows from any format; set_rows, index_add, get_rows_backward; take.
#include "../kernels/index.hpp"

#include "arrange.hpp"
#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

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

std::string refuse_get(const Call& call) { return call.input(0).packed_layout ? "" : check_units(call.input(0)); }

void emit_get(const Call& call, Launcher& launcher) {
  const IndexParams p = params_of(call.input(0), call.input(1), call.output(0), launcher);
  launcher.launch(kernels::get_rows, {p.count, 1, 1}, p.h <= 64 ? 64 : 256, p);
}

std::string refuse_set(const Call& call) { return check_units(call.output(0)); }

void emit_set(const Call& call, Launcher& launcher) {
  IndexParams p = params_of(call.output(0), call.input(1), call.input(0), launcher);
  p.skips = 1;
  p.live = live_of(call);
  launcher.launch(kernels::set_rows, {p.count, 1, 1}, 256, p);
}

void emit_add(const Call& call, Launcher& launcher) {
  IndexParams p = params_of(call.output(0), call.input(1), call.input(0), launcher);
  p.live = live_of(call);
  p.skips = call.op == QUERN_OP_INDEX_ADD;
  p.accumulate = call.op == QUERN_OP_INDEX_ADD || call.integer(QUERN_KEY_ACCUMULATE) != 0;
  if (!p.accumulate) launcher.launch(kernels::clear_rows, launcher.spread(p.rows * p.h), 256, p);
  launcher.launch(kernels::add_rows, {p.count, 1, 1}, 256, p);
}

void emit_take(const Call& call, Launcher& launcher) {
  const IndexParams p = params_of(call.input(0), call.input(1), call.output(0), launcher);
  launcher.launch(kernels::take, launcher.spread(p.rows * p.count), 256, p);
}

constexpr Op table[] = {{QUERN_OP_GET_ROWS, "get_rows.cuda", refuse_get, emit_get, nullptr, false, all_packed},
                        {QUERN_OP_GET_ROWS_BACKWARD, "get_rows_backward.cuda", nullptr, emit_add, nullptr, true},
                        {QUERN_OP_SET_ROWS, "set_rows.cuda", refuse_set, emit_set, nullptr, true},
                        {QUERN_OP_INDEX_ADD, "index_add.cuda", nullptr, emit_add, nullptr, true},
                        {QUERN_OP_TAKE, "take.cuda", nullptr, emit_take}};

}  // namespace

const std::span<const Op> rows_ops = table;

}  // namespace quern::cuda
