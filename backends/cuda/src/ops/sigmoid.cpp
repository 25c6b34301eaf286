// y = 1 / (1 + exp(-x)). Kernel: activation.
#include "activation.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op sigmoid_op{QUERN_OP_SIGMOID, "sigmoid.cuda", nullptr, emit_activation};

}  // namespace quern::cuda
