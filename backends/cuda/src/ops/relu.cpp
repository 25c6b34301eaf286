// y is x above 0, else 0. Kernel: activation.
#include "activation.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op relu_op{QUERN_OP_RELU, "relu.cuda", nullptr, emit_activation};

}  // namespace quern::cuda
