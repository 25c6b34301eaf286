// What losses and their gradients launch.
#pragma once

#include "../op.hpp"
#include "../shaders/modes.h"

namespace quern::vulkan {

LossParams loss_params(const Call& call, const Tensor& label, const Tensor& loss, const Tensor& lse, Launcher& launcher);
/// Of rows of logits.
void launch_loss(const Call& call, const Tensor& loss, const Tensor& lse, const Tensor& y, std::int32_t op, Launcher& launcher);

}  // namespace quern::vulkan
