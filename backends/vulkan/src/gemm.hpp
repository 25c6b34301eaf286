// Products by cooperative matrices (shaders/gemm.comp, gemm_few.comp) of rows of f16 (rows_f16.comp).
#pragma once

#include "op.hpp"

namespace quern::vulkan {

/// How rows of f16 lie: as they are; each four as quantised weights have them; by eights (shaders/eights.glsl).
enum class RowsAs { plain, permuted, eights };
/// Whether gemm_rows.comp multiplies few rows and weights of this format here, from rows by eights.
bool takes_eights(const CardFacts& card, quern_dtype format) noexcept;
/// Beyond, rows of activations are read too often: each 16 outputs read all of them.
constexpr std::int64_t most_eights_rows = 64;

/// Fewer rows of int8 are a tile of gemv.comp.
std::int64_t least_f16_rows(const CardFacts& card) noexcept;
/// Bytes of rows of f16 and their scales; where the scales begin.
std::uint64_t f16_rows_bytes(std::uint64_t rows, std::uint64_t k) noexcept;
std::uint64_t f16_scales_offset(std::uint64_t rows, std::uint64_t k) noexcept;

/// `mode`: what the rows are, as of the kernel.
void launch_rows_f16(RowsF16Params params, std::int32_t mode, RowsAs as, Launcher& launcher);
/// Bytes of quantised weights as f16 with what undoes each row's power of two; and whether a product of m rows makes them: from some hundred
/// rows on the product of f16 gains more than they cost (an H200, LLaMA-7B shapes).
std::uint64_t halves_bytes(std::int64_t n, std::int64_t k) noexcept;
bool makes_halves(const CardFacts& card, std::int64_t m, std::int64_t n, std::int64_t k) noexcept;
/// Of rows by eights.
void launch_gemm_rows(const GemmParams& params, quern_dtype format, Launcher& launcher);
/// Of weights, or of `params.halves` where it is not 0, whatever the number of rows.
void launch_gemm_tiles(const GemmParams& params, quern_dtype format, Launcher& launcher);
/// Where `params.halves` is not 0, the weights are made f16 there first.
void launch_gemm(const GemmParams& params, quern_dtype format, Launcher& launcher);

}  // namespace quern::vulkan
