// Products of operands that lie anywhere, as matmul and lora_merge launch them.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

struct MatmulFactors {
  bool transpose_a = false, transpose_b = false;
  float alpha = 1.0f, beta = 1.0f;
};
/// y = alpha a b^T + bias + beta c; c may be absent, bias 0. Shapes are those of the op; b may be of a block format, but for transposes.
void launch_matmul_any(const Tensor& a, const Tensor& b, Address bias, const Tensor& c, const Tensor& y, const MatmulFactors& factors,
                       Launcher& launcher);

}  // namespace quern::cuda
