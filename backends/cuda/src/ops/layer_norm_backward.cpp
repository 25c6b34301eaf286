// Gradients of layer_norm. Kernels: norm_backward_rows, and where it sums over rows norm_backward_sums and norm_backward_totals.
#include "norms.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op layer_norm_backward_op{QUERN_OP_LAYER_NORM_BACKWARD, "layer_norm_backward.cuda", refuse_norm_backward,
                                emit_norm_backward,           scratch_norm_backward,      true};

}  // namespace quern::cuda
