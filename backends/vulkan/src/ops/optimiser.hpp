// What adamw and sgd launch.
#pragma once

#include "../op.hpp"

namespace quern::vulkan {

std::string check_row_parts(const Call& call);
/// `plain`: 1 for sgd.
void launch_step(const Call& call, const Tensor& m, const Tensor& v, const Tensor& master, OptimiserParams p, std::int32_t plain,
                 Launcher& launcher);

}  // namespace quern::vulkan
