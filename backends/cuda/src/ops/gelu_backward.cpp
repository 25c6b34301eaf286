// dx = dy times the slope of gelu at x. Kernel: activation_backward.
#include "activation.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_gelu_backward(const Call& call, Launcher& launcher) { launch_activation_backward(call, call.integer(QUERN_KEY_KIND), launcher); }

}  // namespace

const Op gelu_backward_op{QUERN_OP_GELU_BACKWARD, "gelu_backward.cuda", nullptr, emit_gelu_backward};

}  // namespace quern::cuda
