// dlogits of cross_entropy.
#include "cross_entropy.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_cross_entropy_backward(const Call& call, Launcher& launcher) {
  const CrossEntropyParams p = cross_entropy_params(call, {}, call.input(2), call.input(3), call.output(0), launcher);
  launcher.launch(kernels::cross_entropy_backward, {p.rows.count, 1, 1}, 256, p);
}

}  // namespace

const Op cross_entropy_backward_op{QUERN_OP_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward.cuda", nullptr, emit_cross_entropy_backward};

}  // namespace quern::cuda
