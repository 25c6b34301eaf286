// y is x^2 above 0, else 0. Kernel: activation.
#include "activation.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op relu_sqr_op{QUERN_OP_RELU_SQR, "relu_sqr.cuda", nullptr, emit_activation};

}  // namespace quern::cuda
