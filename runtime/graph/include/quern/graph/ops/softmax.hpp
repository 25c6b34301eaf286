// Softmax and its relatives. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

namespace quern::graph::ops {

struct SoftmaxAttributes {
  double scale = 1;
  bool causal = false;
  std::int64_t query_offset = 0;  // the position of query 0, >= 0
  std::int64_t window = 0;        // keys that a query sees, its own included; 0: all
  double max_bias = 0;            // > 0: ALiBi slopes multiply the mask
  double softcap = 0;             // > 0: softcap * tanh(. / softcap) before the mask
};

/// y = softmax over the last dimension of what scale, softcap, mask and position leave of x.
///
///   x      [..., q, k]  f32 or f16
///   mask   broadcasts to x; f32 or f16; added, times the slope of the head (dimension -3) with max_bias
///   sinks  [heads]      f32; a further logit of each head that takes mass and gives no output; x then has 3 dimensions
///   y      like x
///
/// causal hides k > q + query_offset; window hides k <= q + query_offset - window. A row without a key is zeros.
ValueId softmax(Graph& graph, ValueId x, ValueId mask, ValueId sinks, const SoftmaxAttributes& how = {}, NodeOptions options = {});

/// dx = scale * y * (dy - sum(y * dy)) for each row; y f32, f16 or bf16, dy and dx like y.
ValueId softmax_backward(Graph& graph, ValueId y, ValueId dy, double scale = 1, NodeOptions options = {});

/// y [...] = log of the sum of exp(x) along the last dimension of x [..., n], f32, f16 or bf16; y has the dtype of x.
ValueId logsumexp(Graph& graph, ValueId x, NodeOptions options = {});

}  // namespace quern::graph::ops
