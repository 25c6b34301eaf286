// The draw of fused schedules: penalties, biases and the draw from what they leave, in two launches where rows are few and long.
#pragma once

#include "op.hpp"

namespace quern::vulkan {

/// Bytes of scratch of launch_draw: of the call of the draw.
std::uint64_t draw_scratch(const Call& call);
/// The penalties' result is not written where there are two launches; that of the biases is.
void launch_draw(const Call& penalize, const Call& bias, const Call& sample, Launcher& launcher);

}  // namespace quern::vulkan
