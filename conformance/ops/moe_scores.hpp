// Scores of experts in f64 and their relative errors, for moe_router and its gradient.
#pragma once

#include "ops/family.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace quern::conformance {

struct MoeScores {
  std::vector<double> score, error;  // error: relative, in f32
};

/// softmax(x) (0 where all are -inf) or the sigmoid of each. A softmax is off by (4 sqrt(n) + 32 + 2 |x - max|) u relatively, a sigmoid by
/// (8 + 2 |x|) u.
inline MoeScores moe_scores(const std::vector<double>& x, bool sigmoid) {
  MoeScores s{std::vector<double>(x.size(), 0.0), std::vector<double>(x.size(), 0.0)};
  if (sigmoid) {
    for (std::size_t e = 0; e < x.size(); ++e) {
      s.score[e] = 1.0 / (1.0 + std::exp(-x[e]));
      s.error[e] = (8 + 2 * std::min(std::fabs(x[e]), 100.0)) * u32;
    }
    return s;
  }
  const double top = *std::ranges::max_element(x);
  if (std::isinf(top)) return s;
  double sum = 0;
  for (std::size_t e = 0; e < x.size(); ++e) sum += s.score[e] = std::exp(x[e] - top);
  for (std::size_t e = 0; e < x.size(); ++e) {
    s.score[e] /= sum;
    s.error[e] = (4 * std::sqrt(static_cast<double>(x.size())) + 32 + 2 * std::min(top - x[e], 100.0)) * u32;
  }
  return s;
}

}  // namespace quern::conformance
