// The scores of experts, and the checks that moe_router and its gradient share.
#pragma once

#include "../kernel.hpp"
#include "../simd/vectors.hpp"

#include <cmath>
#include <limits>

namespace quern::cpu {

enum { router_softmax = 0, router_sigmoid = 1 };

/// score = softmax(x), or sigmoid of each. Logits that are all -inf have scores of 0.
inline void make_scores(const float* x, std::int64_t n, bool sigmoid, double* score) noexcept {
  if (sigmoid) {
    for (std::int64_t i = 0; i < n; ++i) score[i] = 1.0 / (1.0 + std::exp(-static_cast<double>(x[i])));
    return;
  }
  auto best = static_cast<double>(portable::vectors.maximum(x, n));
  if (best == -std::numeric_limits<double>::infinity()) best = 0.0;
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += score[i] = std::exp(static_cast<double>(x[i]) - best);
  if (sum == 0.0) return;
  for (std::int64_t i = 0; i < n; ++i) score[i] /= sum;
}

}  // namespace quern::cpu
