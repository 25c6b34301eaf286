// Rows of x added to rows of a table. Kernels: add_rows, and clear_rows before it where nothing is kept.
#include "rows.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_index_add(const Call& call, Launcher& launcher) { launch_add_rows(call, true, true, launcher); }

}  // namespace

const Op index_add_op{QUERN_OP_INDEX_ADD, "index_add.cuda", nullptr, emit_index_add, nullptr, true};

}  // namespace quern::cuda
