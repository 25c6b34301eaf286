// y = |x|. Kernel: unary.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op abs_op{QUERN_OP_ABS, "abs.cuda", nullptr, emit_unary};

}  // namespace quern::cuda
