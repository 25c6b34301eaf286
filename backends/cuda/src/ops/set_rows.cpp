// Rows of x to rows of a table, encoded.
#include "rows.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_set_rows(const Call& call) { return check_units(call.output(0)); }

void emit_set_rows(const Call& call, Launcher& launcher) {
  IndexParams p = index_params(call.output(0), call.input(1), call.input(0), launcher);
  p.skips = 1;
  p.live = live_of(call);
  launcher.launch(kernels::set_rows, {p.count, 1, 1}, 256, p);
}

}  // namespace

const Op set_rows_op{QUERN_OP_SET_ROWS, "set_rows.cuda", refuse_set_rows, emit_set_rows, nullptr, true};

}  // namespace quern::cuda
