// Rows of a table of any format.
#include "rows.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_get_rows(const Call& call) { return call.input(0).packed_layout ? "" : check_units(call.input(0)); }

void emit_get_rows(const Call& call, Launcher& launcher) {
  const IndexParams p = index_params(call.input(0), call.input(1), call.output(0), launcher);
  launcher.launch(kernels::get_rows, {p.count, 1, 1}, p.h <= 64 ? 64 : 256, p);
}

}  // namespace

const Op get_rows_op{QUERN_OP_GET_ROWS, "get_rows.cuda", refuse_get_rows, emit_get_rows, nullptr, false, all_packed};

}  // namespace quern::cuda
