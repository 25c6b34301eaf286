// Products of few rows, by shaders/matmul.comp: of matmul, and of each expert of matmul_id.
#pragma once

#include "../op.hpp"

namespace quern::vulkan {

/// `tile`: rows that a subgroup takes at a time. `ids`: b is the weights of experts.
void launch_matmul_rows(MatmulParams& p, const Tensor& a, const Tensor& b, std::int64_t tile, bool ids, Launcher& launcher);

}  // namespace quern::vulkan
