// Attention of a step of few rows with its rotations and writes, by kernels/attention_batch.cu.
#pragma once

#include "../kernels/attention_batch.hpp"
#include "../op.hpp"

namespace quern::cuda {

/// Whether the kernel takes a cache, and its rows fill the card without splitting their keys. `queries`: [rows, heads, d]; `table` of
/// the rotations.
bool attention_batch_serves(const Tensor& cache, std::int64_t rows, std::int64_t heads, const Tensor& table, const CardFacts& card);
/// Launches it; all but `faults` is filled.
void launch_attention_batch(AttentionBatchParams& p, Launcher& launcher);

}  // namespace quern::cuda
