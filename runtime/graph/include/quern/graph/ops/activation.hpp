// Activations and their gradients. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

#include <limits>

namespace quern::graph::ops {

/// y = x / (1 + exp(-x)); silu(-inf) = -0, silu(NaN) = NaN. x f32, f16 or bf16, y like x; in place.
ValueId silu(Graph& graph, ValueId x, NodeOptions options = {});
/// dx = dy * silu'(x). dy and dx like x; in place.
ValueId silu_backward(Graph& graph, ValueId x, ValueId dy, NodeOptions options = {});

/// y = x * Phi(x): kind 0 by erf, 1 by tanh(sqrt(2 / pi) (x + 0.044715 x^3)), 2 x * sigmoid(1.702 x); gelu(-inf) = 0.
/// x f32, f16 or bf16, y like x; in place. Source: Hendrycks and Gimpel 2016 (arXiv:1606.08415).
ValueId gelu(Graph& graph, ValueId x, std::int64_t kind = 0, NodeOptions options = {});
/// dx = dy * gelu'(x) of the same kind. dy and dx like x; in place.
ValueId gelu_backward(Graph& graph, ValueId x, ValueId dy, std::int64_t kind = 0, NodeOptions options = {});

/// y = max(x, 0). x f32, f16 or bf16, y like x; in place.
ValueId relu(Graph& graph, ValueId x, NodeOptions options = {});
/// dx = dy where x > 0, else 0. dy and dx like x; in place.
ValueId relu_backward(Graph& graph, ValueId x, ValueId dy, NodeOptions options = {});

/// y = max(x, 0)^2. x f32, f16 or bf16, y like x; in place.
ValueId relu_sqr(Graph& graph, ValueId x, NodeOptions options = {});
/// dx = 2 max(x, 0) dy. dy and dx like x; in place.
ValueId relu_sqr_backward(Graph& graph, ValueId x, ValueId dy, NodeOptions options = {});

/// y = 1 / (1 + exp(-x)). x f32, f16 or bf16, y like x; in place.
ValueId sigmoid(Graph& graph, ValueId x, NodeOptions options = {});
/// dx = dy * s (1 - s) with s = sigmoid(x). dy and dx like x; in place.
ValueId sigmoid_backward(Graph& graph, ValueId x, ValueId dy, NodeOptions options = {});

/// y = tanh(x). x f32, f16 or bf16, y like x; in place.
ValueId tanh(Graph& graph, ValueId x, NodeOptions options = {});
/// dx = dy * (1 - tanh(x)^2). dy and dx like x; in place.
ValueId tanh_backward(Graph& graph, ValueId x, ValueId dy, NodeOptions options = {});

/// How glu gates.
struct GluAttributes {
  std::int64_t kind = 0;                                   // 0 silu, 1 gelu by erf, 2 gelu by tanh, 3 relu, 4 sigmoid
  bool swapped = false;                                    // without up: the gate is the second half
  double alpha = 1;                                        // with a finite limit: silu is x * sigmoid(alpha * x)
  double limit = std::numeric_limits<double>::infinity();  // > 0
};

/// y = f(gate) * up.
///
///   gate   [..., n]  f32, f16 or bf16
///   up     like gate; without it gate is [..., 2n], n fixed: both factors side by side, the gate first unless swapped
///   y      [..., n]  the dtype of gate; in place on gate or up where up is given
///   limit  if finite: min(gate, limit) is gated, max(min(up, limit), -limit) + 1 is the factor
///
/// Source: Shazeer 2020 (arXiv:2002.05202) for the product of an activation and a linear branch.
ValueId glu(Graph& graph, ValueId gate, ValueId up, const GluAttributes& how = {}, NodeOptions options = {});

/// dup is no_value without up.
struct GluGradients {
  ValueId dgate, dup;
};
/// Gradients of glu for both factors; dy is like y; dgate (packed as gate is) and dup are like gate and up.
GluGradients glu_backward(Graph& graph, ValueId gate, ValueId up, ValueId dy, const GluAttributes& how = {}, NodeOptions options = {});

}  // namespace quern::graph::ops
