// Loops over rows of f32 in 16 lanes, and sums in blocks of 4096 elements.
#pragma once

#include "lanes.hpp"

namespace quern::cpu::QUERN_CPU_ISA {

/// Calls body(i, n) for each 16 elements and once for the rest. A body is marked always_inline: its loads are then plain where n is 16.
template <typename Body>
QUERN_CPU_INLINE void each_lanes(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) body(i, 16);
  if (i < n) body(i, static_cast<int>(n - i));
}
QUERN_CPU_INLINE Lanes load_some(const float* p, int n) { return n == 16 ? load(p) : load_part(p, n); }
QUERN_CPU_INLINE void store_some(float* p, Lanes x, int n) { n == 16 ? store(p, x) : store_part(p, x, n); }

/// Sum that step(i, count, lanes) adds up over n elements: 16 lanes in blocks of 4096 elements, blocks added in order.
template <typename Step>
QUERN_CPU_INLINE float blocked_sum(std::int64_t n, const Step& step) {
  float total = 0.0f;
  for (std::int64_t b = 0; b < n; b += 4096) {
    Lanes s = zero();
    each_lanes(
        n - b < 4096 ? n - b : 4096, [&](std::int64_t i, int count) __attribute__((always_inline)) { s = step(b + i, count, s); });
    total += sum(s);
  }
  return total;
}

}  // namespace quern::cpu::QUERN_CPU_ISA
