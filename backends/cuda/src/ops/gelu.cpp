// y = x Phi(x), exactly or as one of its two approximations. Kernel: activation.
#include "activation.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_gelu(const Call& call, Launcher& launcher) { launch_activation(call, call.integer(QUERN_KEY_KIND), launcher); }

}  // namespace

const Op gelu_op{QUERN_OP_GELU, "gelu.cuda", nullptr, emit_gelu};

}  // namespace quern::cuda
