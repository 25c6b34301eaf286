// dx = dy times the slope of relu_sqr at x. Kernel: activation_backward.
#include "activation.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op relu_sqr_backward_op{QUERN_OP_RELU_SQR_BACKWARD, "relu_sqr_backward.cuda", nullptr, emit_activation_backward};

}  // namespace quern::cuda
