// y = a - b, b broadcast. Kernel: binary.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op sub_op{QUERN_OP_SUB, "sub.cuda", nullptr, emit_binary};

}  // namespace quern::cuda
