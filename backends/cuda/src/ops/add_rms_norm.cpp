// sum = a + b, and its rms_norm. Kernels: norm_256 or norm_1024.
#include "norms.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op add_rms_norm_op{QUERN_OP_ADD_RMS_NORM, "add_rms_norm.cuda", refuse_norm, emit_norm, nullptr, false, all_packed};

}  // namespace quern::cuda
