// What ops of one and of two operands launch. Any strides.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

/// kernels/elementwise.cu, unary: y of x by the call's op, with its two numbers.
void launch_unary(const Call& call, float a, float b, Launcher& launcher);
/// The same of an op without numbers.
void emit_unary(const Call& call, Launcher& launcher);
/// kernels/elementwise.cu, binary: y of a and b by the call's op; `alpha` is add's.
void launch_binary(const Call& call, float alpha, Launcher& launcher);
void emit_binary(const Call& call, Launcher& launcher);

}  // namespace quern::cuda
