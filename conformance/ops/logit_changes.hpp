// What penalize and logit_bias make of one logit, with their bounds: the references of the ops' own cases and of whole graphs.
#pragma once

#include "ops/family.hpp"

#include <cmath>

namespace quern::conformance {

struct Logit {
  double value = 0;
  double bound = 0;  // E_acc: what the roundings before the stored one may leave
};

/// v after penalties for `count` > 0 occurrences: a quotient within 2.5 ulp or a product, then a rounding of each result that is kept.
inline Logit penalized(double v, double count, double repeat, double presence, double frequency) {
  const double scaled = v > 0 ? v / repeat : v * repeat, often = frequency * count;
  const double bound = 2.5 * ulp_f32(scaled) + half_ulp_f32(often) + half_ulp_f32(scaled - often) + half_ulp_f32(often + presence);
  return {scaled - often - presence, std::isfinite(v) ? bound : 0.0};
}

/// A logit to which biases are added, in any order. One addition is rounded once, which E_out covers; each of several rounds a sum whose
/// size is at most that of all its terms.
class BiasedLogit {
 public:
  void add(double logit, double bias) {
    if (hits_ == 0) value_ = logit, size_ = std::fabs(logit);
    value_ += bias, size_ += std::fabs(bias), ++hits_;
  }
  Logit sum() const { return {value_, hits_ > 1 ? hits_ * u32 * size_ : 0.0}; }

 private:
  double value_ = 0, size_ = 0, hits_ = 0;
};

}  // namespace quern::conformance
