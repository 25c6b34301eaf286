// y = a b, b broadcast. Kernel: binary.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op mul_op{QUERN_OP_MUL, "mul.cuda", nullptr, emit_binary};

}  // namespace quern::cuda
