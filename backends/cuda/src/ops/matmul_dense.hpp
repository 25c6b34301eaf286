// Products of many rows in 16 bits on the matrix units.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

/// b is a block format whose blocks lie along the outputs.
bool has_turned_blocks(const Call& call);
/// Bytes that launch_dense() may need for a call.
std::uint64_t dense_scratch(const Call& call);
/// Launches the product of `a` [m, k] and `b` [n, k], or turned blocks as they lie, where it is one of Launcher::dense: its operands have the
/// 16 bits that are allowed, are activations that may be rounded to them, or blocks of many rows' products. False: nothing was launched.
bool launch_dense(const Call& call, const Tensor& a, const Tensor& b, Address scratch, Launcher& launcher);

}  // namespace quern::cuda
