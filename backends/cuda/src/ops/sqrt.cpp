// y = sqrt(x). Kernel: unary.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op sqrt_op{QUERN_OP_SQRT, "sqrt.cuda", nullptr, emit_unary};

}  // namespace quern::cuda
