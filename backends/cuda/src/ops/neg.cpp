// y = -x. Kernel: unary.
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op neg_op{QUERN_OP_NEG, "neg.cuda", nullptr, emit_unary};

}  // namespace quern::cuda
