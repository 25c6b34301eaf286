// The loss of each row of logits, and the log of the sum of its exponentials.
#include "cross_entropy.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_cross_entropy(const Call& call, Launcher& launcher) {
  const CrossEntropyParams p = cross_entropy_params(call, call.output(0), call.output(1), {}, {}, launcher);
  launcher.launch(kernels::cross_entropy, {p.rows.count, 1, 1}, p.n > 4096 ? 1024 : 256, p);
}

}  // namespace

const Op cross_entropy_op{QUERN_OP_CROSS_ENTROPY, "cross_entropy.cuda", nullptr, emit_cross_entropy};

}  // namespace quern::cuda
