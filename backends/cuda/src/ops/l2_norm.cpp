// y = x / max(sqrt(sum(x^2)), epsilon) a row. Kernels: norm_256 or norm_1024.
#include "norms.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op l2_norm_op{QUERN_OP_L2_NORM, "l2_norm.cuda", refuse_norm, emit_norm, nullptr, false, all_packed};

}  // namespace quern::cuda
