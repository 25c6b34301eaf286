// What norms and their gradients share.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

/// NormKind of kernels/norm.hpp.
int norm_kind(std::uint32_t op);
/// A norm of f32 rows with what follows it (RowParams).
void launch_norm_row(const RowParams& params, std::int64_t rows, Launcher& launcher);

}  // namespace quern::cuda
