// The distance of rows in an operand of mixed.cu (operand.cuh), for host and device.
#pragma once

namespace quern::cuda {

constexpr int operand_pitch = 592;  // bytes that a row takes of a block of 256 elements

}  // namespace quern::cuda
