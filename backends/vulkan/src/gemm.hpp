// Products by cooperative matrices (shaders/gemm.comp, gemm_few.comp) of rows of f16 (rows_f16.comp).
#pragma once

#include "op.hpp"

namespace quern::vulkan {

/// Fewer rows of int8 are a tile of gemv.comp.
constexpr std::int64_t least_f16_rows = 17;
/// Bytes of rows of f16 and their scales; where the scales begin.
std::uint64_t f16_rows_bytes(std::uint64_t rows, std::uint64_t k) noexcept;
std::uint64_t f16_scales_offset(std::uint64_t rows, std::uint64_t k) noexcept;

/// `mode` and `permuted`: what the rows are and how they lie, as of the kernel.
void launch_rows_f16(const RowsF16Params& params, std::int32_t mode, bool permuted, Launcher& launcher);
void launch_gemm(const GemmParams& params, quern_dtype format, Launcher& launcher);

}  // namespace quern::vulkan
