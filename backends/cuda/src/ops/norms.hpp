// What norms and their gradients share.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

/// Of rms_norm, layer_norm, l2_norm and add_rms_norm, over rows that lie anywhere: factors of rows are read packed.
std::string refuse_norm(const Call& call);
void emit_norm(const Call& call, Launcher& launcher);
/// Of the gradients of the first three.
std::string refuse_norm_backward(const Call& call);
std::uint64_t scratch_norm_backward(const Call& call);
void emit_norm_backward(const Call& call, Launcher& launcher);

/// NormKind of kernels/norm.hpp.
int norm_kind(std::uint32_t op);
/// A norm of f32 rows with what follows it (RowParams).
void launch_norm_row(const RowParams& params, std::int64_t rows, Launcher& launcher);

}  // namespace quern::cuda
