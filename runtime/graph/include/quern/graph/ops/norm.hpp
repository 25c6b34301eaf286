// Norms of rows and their gradients. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

namespace quern::graph::ops {

struct RmsNormAttributes {
  double epsilon;            // > 0 as f32 too; in units of x^2: it is added to the mean, not to the root
  double weight_offset = 0;  // added to each weight
};

/// y = (weight + weight_offset) * x / sqrt(mean(x^2) + epsilon), for each row of x.
///
///   x       [..., h]  f32, f16 or bf16; any strides
///   weight  [h]       f32, whatever the dtype of x; absent: the factor is 1
///   y       like x; in place
///
/// Its gradient needs x and weight, not y. Source: Zhang and Sennrich 2019 (arXiv:1910.07467); the epsilon is the model
/// file's.
ValueId rms_norm(Graph& graph, ValueId x, ValueId weight, const RmsNormAttributes& how, NodeOptions options = {});

/// dweight is no_value without weight.
struct RmsNormGradients {
  ValueId dx, dweight;
};
/// dx like x; dweight f32 [h], the sum over rows of dy * x / rms, added to a state with accumulate.
RmsNormGradients rms_norm_backward(Graph& graph, ValueId x, ValueId weight, ValueId dy, const RmsNormAttributes& how,
                                   bool accumulate = false, NodeOptions options = {});

/// y = weight * (x - mean) / sqrt(variance + epsilon) + bias, the variance over h, not h - 1.
///
///   x             [..., h]  f32, f16 or bf16
///   weight, bias  [h]       f32; each may be absent
///   y             like x; in place
///
/// Source: Ba, Kiros and Hinton 2016 (arXiv:1607.06450).
ValueId layer_norm(Graph& graph, ValueId x, ValueId weight, ValueId bias, double epsilon, NodeOptions options = {});

/// dweight is no_value without weight; dbias may be skipped by NodeOptions.
struct LayerNormGradients {
  ValueId dx, dweight, dbias;
};
/// dx like x; dweight and dbias f32 [h], added to states with accumulate.
LayerNormGradients layer_norm_backward(Graph& graph, ValueId x, ValueId weight, ValueId dy, double epsilon, bool accumulate = false,
                                       NodeOptions options = {});

/// y = x / max(sqrt(sum(x^2)), epsilon), for each row of x [..., h], f32, f16 or bf16; y like x; in place.
ValueId l2_norm(Graph& graph, ValueId x, double epsilon, NodeOptions options = {});
/// Its gradient; dy and dx like x.
ValueId l2_norm_backward(Graph& graph, ValueId x, ValueId dy, double epsilon, NodeOptions options = {});

struct AddRmsNorm {
  ValueId sum, y;
};
/// A composite: sum = add(a, b), y = rms_norm(sum, weight). a [..., h] f32, f16 or bf16, b like a, weight f32 [h]. The norm
/// reads sum as stored.
AddRmsNorm add_rms_norm(Graph& graph, ValueId a, ValueId b, ValueId weight, const RmsNormAttributes& how, NodeOptions options = {});

}  // namespace quern::graph::ops
