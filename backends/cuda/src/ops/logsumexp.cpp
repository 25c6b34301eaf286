// log(sum(exp(x))) of each row.
#include "row_reduction.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_logsumexp(const Call& call, Launcher& launcher) { launch_row_reduction(call, kernels::logsumexp, launcher); }

}  // namespace

const Op logsumexp_op{QUERN_OP_LOGSUMEXP, "logsumexp.cuda", nullptr, emit_logsumexp};

}  // namespace quern::cuda
