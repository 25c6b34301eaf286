// What norms and their gradients launch: a workgroup a row.
#pragma once

#include "../op.hpp"
#include "../shaders/modes.h"

namespace quern::vulkan {

/// Factors of rows are read packed.
std::string refuse_norm(const Call& call);
void launch_norm(const Call& call, const Tensor& b, const Tensor& sum, const Tensor& weight, const Tensor& bias, const Tensor& y,
                 std::int32_t kind, Launcher& launcher);
/// The gradient of a norm with factors; that of l2_norm has neither.
std::string refuse_norm_backward(const Call& call);
std::uint64_t scratch_norm_backward(const Call& call);
void launch_norm_backward(const Call& call, const Tensor& weight, const Tensor& dy, std::int32_t kind, Launcher& launcher);

}  // namespace quern::vulkan
