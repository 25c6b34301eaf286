// What host and kernels of products of many rows agree on.
#pragma once

namespace quern::cuda {

constexpr int gemm_exact_tile = 64;                 // rows and outputs of a block of gemm_exact.cu
constexpr int gemm_columns = 128;                   // outputs of a block of gemm_mma.cu
constexpr int gemm_rows = 128, gemm_few_rows = 32;  // rows of one, of many and of few
constexpr int gemm_split_blocks = 128;              // fewer blocks share k, down to gemm_least_k of it each
constexpr int gemm_least_k = 128;
constexpr int dense_tile = 128;                                     // rows and outputs of a block of gemm_dense.cu
constexpr int dense_stages = 4, dense_stage = 2 * dense_tile * 64;  // steps under way, and bytes of one

/// How many blocks share k where `blocks` have all outputs.
constexpr int gemm_splits(long long blocks, int k) {
  const long long most = k / gemm_least_k, splits = blocks > 0 ? gemm_split_blocks / blocks : 1, few = splits < most ? splits : most;
  return few > 1 ? static_cast<int>(few) : 1;
}

}  // namespace quern::cuda
