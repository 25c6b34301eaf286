// The references of attention over dense keys and of its gradient: for attention_dense, attention_ragged and the backward op of each.
#pragma once

#include "ops/dense_attention.hpp"

namespace quern::conformance {

/// y, and lse where it is wanted. Bounds: attention_reference.hpp.
void dense_attention_reference(const DenseAttention& attention, const ReferenceCall& call, Expected& expected);

/// dq, dk and dv. Inputs y, lse and dy follow one another from input `y` on. Bounds:
///
///   p = exp(s - lse), d = dy . y, dp = dy . v, ds = p (dp - d) * softcap's slope * scale
///   dv = sum p dy, dq = sum ds k, dk = sum ds q
///
/// Errors, first order:
///   p    relatively e = |error of s| + 2 u (|s| + |lse|) + 8 u; the second term is 0 where s and lse are one number
///   dp   the bound of its sum; d likewise
///   ds   |ds| (e + 8 u) + p |scale| (slope (E(dp) + E(d)) + |dp - d| E(slope))
///   sum  of n terms w x: sum E(w) |x| + (4 sqrt(n) + 32) u sum |w x|
///
/// Conversions of fast numerics. A number that is off by a share c at most has the deviation c / sqrt 3.
///   p    moves by p sigma, with sigma that of the score; scores of a query move together
///   dp   moves by c sqrt(2 sum (dy v)^2 / 3)
///   ds   moves by both and by the slope's change
/// These add up over a sum. p and ds are converted too, and so is what they are multiplied with: each term moves by c sqrt(2 / 3) of itself,
/// alone.
void attention_gradient_reference(const DenseAttention& attention, const ReferenceCall& call, std::size_t y, Expected& expected);

/// Fills the inputs y and lse of a gradient with those of the forward pass.
void derive_attention(const DenseAttention& attention, const ReferenceCall& call, std::size_t y);

/// Adds them and dy to the inputs of a case; `rows` are the dims of y.
void add_forward_inputs(Case& c, const DenseShape& s, const Dims& rows);

}  // namespace quern::conformance
