// Where the largest of each row is.
#include "row_reduction.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_argmax(const Call& call, Launcher& launcher) { launch_row_reduction(call, kernels::argmax, launcher); }

}  // namespace

const Op argmax_op{QUERN_OP_ARGMAX, "argmax.cuda", nullptr, emit_argmax};

}  // namespace quern::cuda
