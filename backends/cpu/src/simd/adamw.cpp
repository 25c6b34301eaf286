// AdamW for rows of f32. Source: Loshchilov and Hutter 2017 (arXiv:1711.05101).
//
// (1 - beta2) g comes before its product with g, and the root of v before its correction: a gradient of 1e20 stays in range.
#include "row_loops.hpp"
#include "vectors.hpp"

namespace quern::cpu::QUERN_CPU_ISA {

void adamw(const AdamwRow& p) noexcept {
  const Lanes scale = broadcast(p.scale), beta1 = broadcast(p.beta1), rest1 = broadcast(p.rest1), beta2 = broadcast(p.beta2),
              rest2 = broadcast(p.rest2), rate = broadcast(p.rate), root = broadcast(p.root), epsilon = broadcast(p.epsilon),
              shrink = broadcast(-p.decay);
  each_lanes(p.n, [&](std::int64_t i, int count) {
    const Lanes g = mul(load_some(p.gradient + i, count), scale);
    const Lanes m = fma(beta1, load_some(p.m + i, count), mul(rest1, g));
    const Lanes v = fma(beta2, load_some(p.v + i, count), mul(mul(rest2, g), g));
    const Lanes w = load_some(p.w + i, count);
    const Lanes step = div(mul(rate, m), fma(square_root(v), root, epsilon));
    store_some(p.m + i, m, count);
    store_some(p.v + i, v, count);
    store_some(p.w + i, sub(fma(shrink, w, w), step), count);
  });
}

}  // namespace quern::cpu::QUERN_CPU_ISA
