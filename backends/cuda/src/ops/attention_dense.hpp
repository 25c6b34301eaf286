// Attention over dense keys and within packed examples, by kernels/attention_dense.cu and kernels/attention_backward.cu.
#pragma once

#include "../kernels/dense_attention.hpp"
#include "../op.hpp"

namespace quern::cuda {

constexpr std::int64_t largest_dense_head = 256;  // elements

/// Why heads of these sizes cannot be computed.
std::string check_heads(const Tensor& q, const Tensor& v);
/// lse is f32, where it is there.
std::string check_lse(const Tensor& lse);
/// Why dense keys cannot be attended to.
std::string check_dense(const Call& call, const Tensor& lse, const Tensor& sinks);
/// The strides of the leading dims, and the step.
Operand leading(const Tensor& t);
/// What a call over dense keys and its gradient have: q, k, v and the attributes.
DenseAttentionParams dense_params(const Call& call, const Tensor& mask, const Tensor& sinks, const Tensor& lse);
/// Heads, and the attributes that every attention has.
DenseAttentionParams scores_of(const Call& call, const Tensor& q, const Tensor& k, const Tensor& v);

/// y and lse of `batches`, or of packed examples (p.start).
void attend(const DenseAttentionParams& p, std::int64_t batches, Launcher& launcher);
/// dq, dk and dv. p.dots: memory for a number a query and head.
void attend_backward(const DenseAttentionParams& p, std::int64_t batches, Launcher& launcher);

}  // namespace quern::cuda
