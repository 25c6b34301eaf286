// The references of attention over dense keys and of its gradient: for attention_dense, attention_ragged and the backward op of each.
#pragma once

#include "ops/dense_attention.hpp"

namespace quern::conformance {

/// y, and lse where it is wanted. Bounds: attention_reference.hpp.
void dense_attention_reference(const DenseAttention& attention, const ReferenceCall& call, Expected& expected);

/// dq, dk and dv. Inputs y, lse and dy follow one another from input `y` on. Bounds:
///
/// With p = exp(s - lse), d = dy . y and dp = dy . v: dv = sum p dy, ds = p (dp - d) * softcap's slope * scale, dq = sum ds k, dk = sum ds
/// q. Errors, first order: p is off by e = |error of s| + 2 u (|s| + |lse|) (0 where both are one number) + 8 u relatively; dp and d each by
/// the bound of their sums; the slope by its own error; so ds by |ds| (e + 8 u) + p |scale| (slope (E(dp) + E(d)) + |dp - d| E(slope)). A
/// sum of n terms w x adds (4 sqrt(n) + 32) u sum |w x| to sum E(w) |x|.
///
/// Conversions of fast numerics, of deviation c / sqrt 3 for a number that is off by a share c at most: scores of a query move together, so
/// p moves by p sigma, with sigma that of the score; dp by c sqrt(2 sum (dy v)^2 / 3); ds by both and by the slope's change. These add up over
/// a sum. Then p and ds are converted themselves, and what they are multiplied with: each term moves by c sqrt(2 / 3) of itself, alone.
void attention_gradient_reference(const DenseAttention& attention, const ReferenceCall& call, std::size_t y, Expected& expected);

/// Fills the inputs y and lse of a gradient with those of the forward pass.
void derive_attention(const DenseAttention& attention, const ReferenceCall& call, std::size_t y);

/// Adds them and dy to the inputs of a case; `rows` are the dims of y.
void add_forward_inputs(Case& c, const DenseShape& s, const Dims& rows);

}  // namespace quern::conformance
