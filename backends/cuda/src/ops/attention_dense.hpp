// Attention over dense keys and within packed examples, by kernels/attention_dense.cu and kernels/attention_backward.cu.
#pragma once

#include "../kernels/dense_attention.hpp"
#include "../op.hpp"

namespace quern::cuda {

constexpr std::int64_t largest_dense_head = 256;  // elements

/// y and lse of `batches`, or of packed examples (p.start).
void attend(const DenseAttentionParams& p, std::int64_t batches, Launcher& launcher);
/// dq, dk and dv. p.dots: memory for a number a query and head.
void attend_backward(const DenseAttentionParams& p, std::int64_t batches, Launcher& launcher);

}  // namespace quern::cuda
