// Optimiser steps, in place on state. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

#include <vector>

namespace quern::graph::ops {

struct AdamwInputs {
  ValueId gradient, step, lr;
  ValueId scale = no_value;  // multiplies the gradient first
};
struct AdamwState {
  ValueId w, m, v;
  ValueId master = no_value;  // w follows it
};
struct AdamwAttributes {
  double beta1 = 0.9, beta2 = 0.999;  // 0 to below 1
  double epsilon = 1e-8;              // > 0
  double weight_decay = 0;            // >= 0, not scaled by the gradient's moments
};
/// One step of AdamW with bias correction. gradient [...] f32; step i32 [1], >= 1; lr and scale f32 [1]; w f32 or bf16, m, v
/// and master f32, all of the gradient's shape and of kind state. Source: Loshchilov and Hutter 2017 (arXiv:1711.05101).
void adamw(Graph& graph, const AdamwInputs& in, const AdamwState& state, const AdamwAttributes& how, NodeOptions options = {});

struct SgdInputs {
  ValueId gradient, lr;
  ValueId scale = no_value;
};
struct SgdState {
  ValueId w;
  ValueId momentum = no_value;  // needed with momentum > 0
};
struct SgdAttributes {
  double momentum = 0;      // 0 to below 1
  double weight_decay = 0;  // >= 0
};
/// w -= lr * (averaged gradient + weight_decay * w). gradient, w and momentum f32 or bf16 of one shape; lr and scale f32 [1].
void sgd(Graph& graph, const SgdInputs& in, const SgdState& state, const SgdAttributes& how, NodeOptions options = {});

struct GradNorm {
  ValueId norm, finite;
};
/// norm f32 [1]: the root of the sum of squares over all gradients, f32, f16 or bf16, accumulated in f64; finite i32 [1]: 1 if
/// every element is.
GradNorm grad_norm(Graph& graph, std::vector<ValueId> gradients, NodeOptions options = {});

/// scale f32 [1] = min(1, max_norm / (norm / loss_scale)) / loss_scale; norm and loss_scale f32 [1], max_norm > 0.
ValueId clip_scale(Graph& graph, ValueId norm, ValueId loss_scale, double max_norm, NodeOptions options = {});

}  // namespace quern::graph::ops
