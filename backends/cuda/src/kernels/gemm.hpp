// What host and kernels of products of many rows agree on.
#pragma once

namespace quern::cuda {

constexpr int gemm_exact_tile = 64;                                 // rows and outputs of a block of gemm_exact.cu
constexpr int gemm_columns = 128;                                   // outputs of a block of gemm_mma.cu
constexpr int gemm_rows = 128, gemm_few_rows = 32;                  // rows of one, of many and of few
constexpr int dense_tile = 128;                                     // rows and outputs of a block of gemm_dense.cu
constexpr int dense_stages = 4, dense_stage = 2 * dense_tile * 64;  // steps under way, and bytes of one

}  // namespace quern::cuda
