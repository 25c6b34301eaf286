// log(sum(exp(x))) of each row. Kernel: reduce.
#include "reduce.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

void emit_logsumexp(const Call& call, Launcher& launcher) { launch_row_reduction(call, reduce_log_sum_exp, launcher); }

}  // namespace

const Op logsumexp_op = offer(QUERN_OP_LOGSUMEXP, "logsumexp.vulkan", nullptr, emit_logsumexp);

}  // namespace quern::vulkan
