// y = x / (1 + exp(-x)). Kernel: activation.
#include "activation.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op silu_op{QUERN_OP_SILU, "silu.cuda", nullptr, emit_activation};

}  // namespace quern::cuda
