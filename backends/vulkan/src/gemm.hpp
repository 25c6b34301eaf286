// Products by cooperative matrices (shaders/gemm.comp): which have them, and their launch.
#pragma once

#include "op.hpp"

namespace quern::vulkan {

/// Whether products of m rows are computed so, their activations being rows of f16 then (shaders/rows_f16.comp).
bool takes_matrices(std::int64_t m) noexcept;
/// Bytes of rows of f16 and their scales; where the scales begin.
std::uint64_t f16_rows_bytes(std::uint64_t rows, std::uint64_t k) noexcept;
std::uint64_t f16_scales_offset(std::uint64_t rows, std::uint64_t k) noexcept;

/// `mode`: what the rows are, as of the kernel.
void launch_rows_f16(const RowsF16Params& params, std::int32_t mode, Launcher& launcher);
void launch_gemm(const GemmParams& params, quern_dtype format, Launcher& launcher);

}  // namespace quern::vulkan
