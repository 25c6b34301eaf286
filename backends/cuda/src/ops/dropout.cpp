// x / (1 - p) where the random number is at least p, else 0.
#include "random.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_dropout(const Call& call) { return check_contiguous(call.input(1)); }

void emit_dropout(const Call& call, Launcher& launcher) {
  launch_random(kernels::dropout, call, call.input(0), call.input(1), call.input(2), static_cast<float>(call.real(QUERN_KEY_P)), launcher);
}

}  // namespace

const Op dropout_op{QUERN_OP_DROPOUT, "dropout.cuda", refuse_dropout, emit_dropout};

}  // namespace quern::cuda
