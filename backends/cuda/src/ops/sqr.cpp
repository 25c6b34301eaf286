// y = x^2. Kernel: unary.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op sqr_op{QUERN_OP_SQR, "sqr.cuda", nullptr, emit_unary};

}  // namespace quern::cuda
