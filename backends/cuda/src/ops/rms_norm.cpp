// y = (weight + weight_offset) x / sqrt(mean(x^2) + epsilon) a row. Kernels: norm_256 or norm_1024.
#include "norms.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op rms_norm_op{QUERN_OP_RMS_NORM, "rms_norm.cuda", refuse_norm, emit_norm, nullptr, false, all_packed};

}  // namespace quern::cuda
