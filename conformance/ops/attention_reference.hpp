// One row of softmax attention in f64: its scores, probabilities and values, and how far each may be off in f32.
//
// Shared by attention, attention_dense and attention_backward, which differ in where keys lie and which of them a row sees.
#pragma once

#include "ops/family.hpp"

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace quern::conformance {

/// A reference met the NaN of a key that no row sees: what it was told to read is not what the case's data are made for.
struct UnseenRead : std::logic_error {
  using std::logic_error::logic_error;
};

struct AttentionRules {
  double scale = 1, softcap = 0;
  Tier tier = Tier::t1;           // of the sums over the head size
  std::uint32_t conversions = 0;  // QUERN_CONVERT_... of fast numerics
};

/// Rules of a node: scale and softcap of its attributes; T2 where both q and k have 16 bits or fewer, as matrix units take them.
AttentionRules attention_rules(const ReferenceCall& call, const Tensor& q, const Tensor& k);

/// The slope of ALiBi of a head: 2^(-max_bias (h + 1) / n) for the first n = 2^floor(log2(heads)) heads, then 2^(-max_bias (2 i + 1) / 2n)
/// for head n + i (Press et al. 2021). 1 without a bias.
double alibi_slope(double max_bias, std::int64_t head, std::int64_t heads);

/// Errors: a score of K = head size products, (2 sqrt(K) + 8) u scale sum |q k| (T2: more); a softcap's tanh, its two divisions and product
/// 10 u of the score; an added mask 2 u of itself (the product with a slope) and u of the sum, unless it is so large that f32 keeps nothing
/// of the score, which then is exactly the mask. A probability is off by exp of that error
/// relatively. Values: (4 sqrt(kv) + 32) u sum p |v|, which holds the exponential (its argument is below 100 where p matters), the
/// rescaling of running sums, and both sums; and first order sum p |v| e + sum p |v| sum p e, e the relative errors of p. Below the
/// normals of f32 a probability may be 0, and each product and sum is off by half a step of them.
class AttentionRow {
 public:
  struct Key {
    std::int64_t index;  // as given to add()
    double score;        // with softcap and mask
    double error;        // of score
    double slope;        // d score / d (scale q.k): 1 - tanh^2 under a softcap
    double slope_error;
    double p = 0;      // its probability
    double sigma = 0;  // of the score, for the conversions of fast numerics
  };

  explicit AttentionRow(const AttentionRules& rules) : rules_(rules) {}

  void clear() { keys_.clear(); }
  /// A key that the row sees: `size` elements of q and k, and what the mask adds times the slope.
  void add(std::int64_t index, const double* q, const double* k, std::int64_t size, double mask, double slope);
  /// Makes the probabilities; `sink` is a further logit that takes mass only, or null.
  void close(const double* sink);
  /// Probabilities from an lse that is given: exp(score - lse).
  void close_with(double lse);

  const std::vector<Key>& keys() const noexcept { return keys_; }
  double lse() const noexcept { return lse_; }  // -inf where nothing is seen and there is no sink
  double lse_bound() const;
  /// By what the conversions that the node allows may move a number, as a share of it; 0 without any.
  double relative_conversion() const noexcept;

  /// Appends y = sum p v to `y`: value_at(index) gives the `size` elements of a key's v. `dtype` is that of y.
  template <class ValueAt>
  void weigh(std::int64_t size, const ValueAt& value_at, quern_dtype dtype, ExpectedOutput& y);

 private:
  void append(const std::vector<double>& sum, const std::vector<double>& scale, const std::vector<double>& moved, quern_dtype dtype,
              ExpectedOutput& y) const;

  AttentionRules rules_;
  std::vector<Key> keys_;
  double lse_ = 0;
};

template <class ValueAt>
void AttentionRow::weigh(std::int64_t size, const ValueAt& value_at, quern_dtype dtype, ExpectedOutput& y) {
  const auto n = static_cast<std::size_t>(size);
  std::vector<double> sum(n, 0.0), scale(n, 0.0), moved(n, 0.0);
  for (const Key& key : keys_) {
    if (key.p == 0.0) continue;
    const double* v = value_at(key.index);
    const double relative = std::expm1(key.error) + (key.p < 0x1p-126 ? 1.0 : 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      const double term = key.p * v[i];
      sum[i] += term;
      scale[i] += std::fabs(term);
      moved[i] += std::fabs(term) * relative;
    }
  }
  append(sum, scale, moved, dtype, y);
  if (rules_.conversions == 0) return;
  // Scores move together, as they share q: their deviations add up. p and v are converted one by one.
  std::vector<double> shifted(n, 0.0), square(n, 0.0);
  const double relative = relative_conversion();
  for (const Key& key : keys_) {
    if (key.p == 0.0) continue;
    const double* v = value_at(key.index);
    for (std::size_t i = 0; i < n; ++i) {
      shifted[i] += key.p * std::fabs(v[i] - sum[i]) * key.sigma;
      const double step = relative * key.p * v[i];
      square[i] += 2.0 * step * step;
    }
  }
  for (std::size_t i = 0; i < n; ++i) y.deviation.push_back(shifted[i] + std::sqrt(square[i] / 3.0));
}

}  // namespace quern::conformance
