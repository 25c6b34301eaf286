// dx = dy times the slope of silu at x. Kernel: activation_backward.
#include "activation.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op silu_backward_op{QUERN_OP_SILU_BACKWARD, "silu_backward.cuda", nullptr, emit_activation_backward};

}  // namespace quern::cuda
