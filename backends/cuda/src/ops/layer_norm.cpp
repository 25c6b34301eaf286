// y = weight (x - mean) / sqrt(variance + epsilon) + bias a row. Kernels: norm_256 or norm_1024.
#include "norms.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op layer_norm_op{QUERN_OP_LAYER_NORM, "layer_norm.cuda", refuse_norm, emit_norm, nullptr, false, all_packed};

}  // namespace quern::cuda
