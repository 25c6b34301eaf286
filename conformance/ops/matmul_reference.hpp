// The f64 reference of matmul, and its bounds.
#pragma once

#include "ops/family.hpp"

namespace quern::conformance {

/// Inputs a b bias? c?. All outputs up to 2^24 multiply-adds or where the rows of a are sparse; beyond that 4096 seeded outputs and the
/// crossings of all tile edges.
void matmul_reference(const ReferenceCall& call, Expected& expected);

/// Half a step of the widest conversion of QUERN_CONVERT_... bits `allowed`, for each element of a row that meets weights of dtype `b`:
/// int8 the largest |a| of the block of weights / 254 (blocks are those of the format), bf16 2^-8 |a|, f16 and tf32 2^-11 |a|.
std::vector<double> conversion_steps(const std::vector<double>& row, std::uint32_t allowed, quern_dtype b);

/// Whether S of fast numerics is another one than that of exact numerics: weights of dtype `b` have minimums and the node allows int8.
/// Integer kernels sum a' q (q the codes) and a' apart, a' the converted activation, and scale each sum: their rounding errors follow
///   S = sum |a'| (|scale q| + |minimum|),
/// not sum |a b|, which is 0 where the two parts cancel. E_in keeps b: both parts see the same a'. Exact numerics keeps sum |a b|: a value
/// is decoded, rounded once, and multiplied.
bool has_parts(quern_dtype b, std::uint32_t allowed);

/// The largest |a'| of a converted activation: |a| + step (half a step of the conversion), and 2 |a| where that is less, as what lies below
/// half a step becomes 0.
double converted_size(double a, double step) noexcept;

/// ExpectedOutput::sharing of m rows times `outputs` rows of b, deep k. The rounding of an activation meets all of them: with b of
/// deviation 1, the sum over a row of r times its error is that of d_k a_k (sum_j b_jk^2 = n) and, for k' beside k, of n^(1/2) noise, so
/// that the variance of the slope is (3 / (m k) + 1 / (m n)) of a rounding's (3: fourth moment of a gaussian a), where independent
/// errors have 1 / (m n).
double sharing_of_conversions(std::int64_t outputs, std::int64_t k);

/// ExpectedOutput::gain_variance of `outputs` rows of weights of dtype `b`, deep k. A weight's rounding to f16 or bf16 meets all rows of a, so
/// with a of deviation 1 the slope's error is sum(b^2 d) / sum(b^2) for relative errors d, whatever m is. Codes of a block are rounded
/// alike where they differ by a power of two, so a block counts as one rounding, of variance step^2 / 3: step^2 / 3 times block / (n k). Floats are
/// rounded each by itself: 3 / (n k), the fourth moment of a gaussian b.
double gain_variance_of_weights(std::int64_t outputs, std::int64_t k, quern_dtype b, std::uint32_t allowed);

/// What a node with weights of dtype `b` allows in fast numerics, as sessions send it.
std::uint32_t weight_conversions(quern_dtype b);

}  // namespace quern::conformance
