// dx = dy times the slope of tanh at x. Kernel: activation_backward.
#include "activation.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op tanh_backward_op{QUERN_OP_TANH_BACKWARD, "tanh_backward.cuda", nullptr, emit_activation_backward};

}  // namespace quern::cuda
