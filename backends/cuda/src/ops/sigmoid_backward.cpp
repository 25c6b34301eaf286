// dx = dy times the slope of sigmoid at x. Kernel: activation_backward.
#include "activation.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op sigmoid_backward_op{QUERN_OP_SIGMOID_BACKWARD, "sigmoid_backward.cuda", nullptr, emit_activation_backward};

}  // namespace quern::cuda
