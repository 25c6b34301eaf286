// dx = dy times the slope of relu at x. Kernel: activation_backward.
#include "activation.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op relu_backward_op{QUERN_OP_RELU_BACKWARD, "relu_backward.cuda", nullptr, emit_activation_backward};

}  // namespace quern::cuda
