// y = tanh(x). Kernel: activation.
#include "activation.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op tanh_op{QUERN_OP_TANH, "tanh.cuda", nullptr, emit_activation};

}  // namespace quern::cuda
