// Attention of a step of few rows with its rotations and writes, by kernels/attention_batch.cu.
#pragma once

#include "../kernels/attention_batch.hpp"
#include "../op.hpp"

namespace quern::cuda {

/// Whether the kernel takes a cache, and its rows fill the card without splitting their keys. `queries`: [rows, heads, d]; `table` of
/// the rotations.
bool attention_batch_serves(const Tensor& cache, const Tensor& queries, const Tensor& table, Launcher& launcher);
/// Launches it; all but `faults` is filled.
void launch_attention_batch(AttentionBatchParams& p, Launcher& launcher);

}  // namespace quern::cuda
