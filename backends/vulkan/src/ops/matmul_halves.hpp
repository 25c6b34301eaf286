// Products of many rows by cooperative matrices, of whatever operands the node lets be rounded (shaders/operand_f16.comp, gemm.comp).
#pragma once

#include "../op.hpp"

namespace quern::vulkan {

/// Bytes of scratch at the call's dims; 0 where the numerics allow no such product.
std::uint64_t halves_scratch(const Call& call);
/// False: nothing was launched, since the device or the call is not for it.
bool launch_halves(const Call& call, Launcher& launcher);

}  // namespace quern::vulkan
