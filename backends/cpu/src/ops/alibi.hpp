// Slopes of ALiBi: 2^(-max_bias k / n) for the first n = 2^floor(log2(heads)) heads, and the odd steps of twice as many for the rest.
// Source: Press et al. 2021 (arXiv:2108.12409).
#pragma once

#include <cmath>
#include <cstdint>

namespace quern::cpu {

/// 1 without a bias.
inline float alibi_slope(double max_bias, std::int64_t head, std::int64_t heads) noexcept {
  if (!(max_bias > 0) || heads < 1) return 1.0f;
  std::int64_t n = 1;
  while (n * 2 <= heads) n *= 2;
  const double step = head < n ? static_cast<double>(head + 1) / static_cast<double>(n)
                               : static_cast<double>(2 * (head - n) + 1) / static_cast<double>(2 * n);
  return static_cast<float>(std::exp2(-max_bias * step));
}

}  // namespace quern::cpu
