// Rows of gradients: dot products, sums of two rows, and the derivatives of softmax and silu.
#include "row_loops.hpp"
#include "vectors.hpp"

namespace quern::cpu::QUERN_CPU_ISA {

namespace {

/// sigmoid(x) and sigmoid(-x), each with all its digits.
struct Sigmoids {
  Lanes of_x, of_minus_x;
};
QUERN_CPU_INLINE Sigmoids sigmoids(Lanes x) {
  const Lanes one = broadcast(1.0f);
  return {div(one, add(one, exponential(sub(zero(), x)))), div(one, add(one, exponential(x)))};
}
/// s (1 + x (1 - s)). Beyond 128 it is 0 or 1, and x bounded there, since infinity times 0 would be NaN; a NaN stays.
QUERN_CPU_INLINE Lanes silu_slope(Lanes x, const Sigmoids& s) {
  const Lanes bounded = min(broadcast(128.0f), max(broadcast(-128.0f), x));
  return mul(s.of_x, fma(bounded, s.of_minus_x, broadcast(1.0f)));
}

}  // namespace

float dot(const float* a, const float* b, std::int64_t n) noexcept {
  return blocked_sum(n, [&](std::int64_t i, int count, Lanes s) { return fma(load_some(a + i, count), load_some(b + i, count), s); });
}

void combine(const float* x, float a, const float* y, float b, std::int64_t n, float* out) noexcept {
  const Lanes of_x = broadcast(a), of_y = broadcast(b);
  each_lanes(n, [&](std::int64_t i, int count) {
    store_some(out + i, fma(load_some(x + i, count), of_x, mul(load_some(y + i, count), of_y)), count);
  });
}

void softmax_backward(const float* y, const float* dy, float shift, float scale, std::int64_t n, float* dx) noexcept {
  const Lanes by = broadcast(shift), factor = broadcast(scale);
  each_lanes(n, [&](std::int64_t i, int count) {
    const Lanes p = load_some(y + i, count);
    const Lanes d = mul(mul(p, sub(load_some(dy + i, count), by)), factor);
    store_some(dx + i, where_not_zero(p, d), count);
  });
}

void silu_backward(const float* x, const float* dy, std::int64_t n, float* dx) noexcept {
  each_lanes(n, [&](std::int64_t i, int count) {
    const Lanes at = load_some(x + i, count);
    store_some(dx + i, mul(load_some(dy + i, count), silu_slope(at, sigmoids(at))), count);
  });
}

void silu_mul_backward(const float* gate, const float* up, const float* dy, std::int64_t n, float* dgate, float* dup) noexcept {
  each_lanes(n, [&](std::int64_t i, int count) {
    const Lanes g = load_some(gate + i, count), u = load_some(up + i, count), d = load_some(dy + i, count);
    const Sigmoids s = sigmoids(g);
    store_some(dgate + i, mul(mul(d, u), silu_slope(g, s)), count);
    if (dup != nullptr) store_some(dup + i, mul(d, mul(max(broadcast(-__FLT_MAX__), g), s.of_x)), count);
  });
}

}  // namespace quern::cpu::QUERN_CPU_ISA
