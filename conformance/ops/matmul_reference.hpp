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

/// How few elements of a row decide a sum, as the share of a slope's variance that one conversion's error has: of an activation, whose rounding
/// meets all outputs of its row, and of a weight, whose rounding meets all rows.
struct ConversionShares {
  double activations = 0, weights = 0;
};

/// Of rows of deviation 1, k long: 3 / k (the fourth moment of a gaussian) and 1 / k.
ConversionShares even_shares(std::int64_t k) noexcept;

/// Of rows whose elements differ in size, where some decide alone. With b of deviation 1, d half a step of an element's conversion, s^2 = sum(d^2) of a row
/// and weights 1 / s^2 of the rows, as the slope has them:
///   activations = sum over rows of sum(d^2 a^2) / s^4, over sum of sum(a^2) / s^2
///   weights = sum(c^2) / sum(c)^2, c_k = sum over rows of a_k^2 / s^2
class RowShares {
 public:
  explicit RowShares(std::int64_t k) : columns_(static_cast<std::size_t>(k)) {}
  /// One row's elements at `at`, and half a step of each.
  void add(const std::vector<std::int64_t>& at, const std::vector<double>& value, const std::vector<double>& step);
  /// At least those of even rows.
  ConversionShares shares() const noexcept;

 private:
  std::vector<double> columns_;
  double together_ = 0, all_ = 0;
};

/// ExpectedOutput::sharing of m rows times `outputs` rows of b. The rounding of an activation meets all of them: with b of
/// deviation 1, the sum over a row of r times its error is that of d_k a_k (sum_j b_jk^2 = n) and, for k' beside k, of n^(1/2) noise, so
/// that the variance of the slope is (share / m + 1 / (m n)) of a rounding's, where independent errors have 1 / (m n).
double sharing_of_conversions(std::int64_t outputs, const ConversionShares& shares) noexcept;

/// ExpectedOutput::gain_variance of `outputs` rows of weights of dtype `b`. A weight's rounding to f16 or bf16 meets all rows of a, so
/// the slope's error is sum(b^2 c d) / sum(b^2 c) for relative errors d, whatever m is. Codes of a block are rounded
/// alike where they differ by a power of two, so a block counts as one rounding, of variance step^2 / 3: step^2 / 3 times block times share / n. Floats are
/// rounded each by itself: 3 share / n, the fourth moment of a gaussian b.
double gain_variance_of_weights(std::int64_t outputs, const ConversionShares& shares, quern_dtype b, std::uint32_t allowed);

/// What a node with weights of dtype `b` allows in fast numerics, as sessions send it.
std::uint32_t weight_conversions(quern_dtype b);

}  // namespace quern::conformance
