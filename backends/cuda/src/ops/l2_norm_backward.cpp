// Gradients of l2_norm.
#include "norms.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op l2_norm_backward_op{QUERN_OP_L2_NORM_BACKWARD, "l2_norm_backward.cuda", refuse_norm_backward,
                             emit_norm_backward,        scratch_norm_backward,   true};

}  // namespace quern::cuda
