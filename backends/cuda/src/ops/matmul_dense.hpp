// Products of many rows in 16 bits on the matrix units.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

/// b is a block format whose blocks lie along the outputs.
bool has_turned_blocks(const Call& call);
/// Bytes that launch_dense() may need for a call.
std::uint64_t dense_scratch(const Call& call);
/// Launches the product of `a` [m, k] and `b` [n, k], or of turned blocks as they lie, where Launcher::dense serves it. Its operands have the
/// 16 bits that are allowed, or are made so: activations are rounded, and blocks are decoded for many rows. False: nothing was launched.
bool launch_dense(const Call& call, const Tensor& a, const Tensor& b, Address scratch, Launcher& launcher);

}  // namespace quern::cuda
