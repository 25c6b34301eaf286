// y = a / b, b broadcast. Kernel: binary.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op div_op{QUERN_OP_DIV, "div.cuda", nullptr, emit_binary};

}  // namespace quern::cuda
