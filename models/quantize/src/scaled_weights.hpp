// Weights of columns in a form in which sums neither overflow nor vanish.
#pragma once

#include <algorithm>

namespace quern::quantize {

/// Of a group without any weight, beside those of other groups that are at most 1.
inline constexpr float least_weight = 1e-6f;

/// The block's weights with 1 for the largest, so that no sum underflows.
inline void scale_weights(const float* weights, int n, int group, float* out) noexcept {
  const float largest = *std::max_element(weights, weights + n);
  if (!(largest > 0)) {
    std::fill_n(out, n, 1.0f);
    return;
  }
  for (int i = 0; i < n; ++i) out[i] = weights[i] / largest;
  for (int at = 0; at < n; at += group)
    if (std::all_of(out + at, out + at + group, [](float w) { return w == 0; })) std::fill_n(out + at, group, least_weight);
}

}  // namespace quern::quantize
