// Products of 2 to 64 rows with K-quantised weights, and of 1 to 64 with f16 and bf16 ones, by kernels/mixed.cu: activations of f16 (bf16).
#pragma once

#include "../kernels/mixed.hpp"
#include "../kernels/operand.hpp"
#include "../op.hpp"

namespace quern::cuda {

constexpr std::int64_t most_mixed_rows = 64;
constexpr std::int64_t mixed_span = 4;         // blocks of 256 that a warp takes between two barriers
constexpr std::int64_t mixed_reserved = 1024;  // shared memory that the system takes for each block

/// How many rows an operand has room for that holds `rows`, and its bytes.
constexpr std::int64_t operand_columns(std::int64_t rows) {
  return rows <= 1 ? 1 : rows <= 8 ? 8 : rows <= 16 ? 16 : rows <= 32 ? 32 : rows <= 48 ? 48 : 64;
}
constexpr std::int64_t operand_bytes(std::int64_t rows, std::int64_t k) {
  return (rows + most_mixed_rows - 1) / most_mixed_rows * operand_columns(rows) * ((k + 255) / 256) * operand_pitch;
}

/// Whether the kernel takes these weights: Q4_K, Q6_K in planes, f16 or bf16; rows of whole blocks of 256.
bool mixed_serves(const Tensor& weights, const CardFacts& card);
/// Fills how the work is shared among blocks and warps, and launches. All but that is filled, `columns` too, which is that of a larger
/// operand of which these are 64 rows; rows of parts before the last are a multiple of 16 (under glu: rows of both are equal).
void launch_mixed(MixedParams& p, Launcher& launcher);

}  // namespace quern::cuda
