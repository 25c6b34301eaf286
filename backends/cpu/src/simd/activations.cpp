// Activations of rows, gated ones, and soft-caps. An element's bits depend on the element alone, wherever in a row it lies.
//
// Errors, u = 2^-24, beside those of lanes.hpp; conformance/ops/activation_reference.cpp has what is allowed. Portable code, which multiplies
// and adds in two steps, is given in brackets.
//   sigmoid    1 / (1 + e) or e / (1 + e) with e = exp(-|x|): s (1 - s) times 2.2 u, and 2 u s. A small s keeps its digits
//   gelu       x s, s = 1 / (1 + exp(-w)), w = 2 c x (1 + k x^2) or 1.702 x. w is within 4.5 u |w|, and s (1 - s) |w| is at most 0.23: that is
//              1.1 u; 0.6 u of exp, 3 u of an addition, a division and a product: 5 u |x|. Allowed are 16
//   gelu erf   x Phi(x), Phi(-|x|) = t P(t) exp(-x^2 / 2), t = 1 / (1 + 0.35 |x|). P is of degree 8, fitted for |x| <= 15 with a relative error
//              of 0.6 u. Horner's sums add up to 1.5 where P is 0.5: 3 u (6). t is within 2.2 u, which t P(t) takes up 2.3 times at most: 5 u.
//              exp gives 2.2 u (3.2) and x^2 / 2 u from the square, two products 2 u. Phi(-|x|) is at most 0.5: 6.5 u (9) where x is near 0;
//              1 - Phi and the product with x make that 8.5 u |x| (11). Beyond 15 it is below 2^-160
//   soft-cap   cap tanh(x / cap): 5 u (7) of tanh, 1 u of the quotient, 1 u of the product
#include "row_loops.hpp"
#include "vectors.hpp"

namespace quern::cpu::QUERN_CPU_ISA {

namespace {

/// x times a factor that falls to 0 faster than x grows: -infinity times 0 would be NaN.
QUERN_CPU_INLINE Lanes bounded(Lanes x) { return max(broadcast(-__FLT_MAX__), x); }
/// x / (1 + exp(minus_w)).
QUERN_CPU_INLINE Lanes gated(Lanes x, Lanes minus_w) { return div(bounded(x), add(broadcast(1.0f), exponential(minus_w))); }

struct Silu {
  QUERN_CPU_INLINE Lanes of(Lanes x) { return gated(x, sub(zero(), x)); }
};
struct SteeperSilu {
  float alpha;
  Lanes of(Lanes x) const { return gated(x, mul(x, broadcast(-alpha))); }
};
struct GeluErf {
  QUERN_CPU_INLINE Lanes of(Lanes x) {
    const Lanes size = absolute(x), one = broadcast(1.0f);
    const Lanes t = div(one, fma(size, broadcast(0.35f), one));
    Lanes p = broadcast(-0.0291639641f);
    p = fma(p, t, broadcast(0.144060984f));
    p = fma(p, t, broadcast(-0.255902261f));
    p = fma(p, t, broadcast(0.15939337f));
    p = fma(p, t, broadcast(-0.0232641622f));
    p = fma(p, t, broadcast(0.105574943f));
    p = fma(p, t, broadcast(0.119815461f));
    p = fma(p, t, broadcast(0.13986434f));
    p = fma(p, t, broadcast(0.139621258f));
    const Lanes tail = mul(mul(p, t), exponential(mul(mul(x, x), broadcast(-0.5f))));
    return mul(bounded(x), by_sign(x, tail, sub(one, tail)));
  }
};
struct GeluTanh {
  QUERN_CPU_INLINE Lanes of(Lanes x) {  // sqrt(8 / pi) = 1.59576912
    const Lanes cubic = fma(mul(x, x), broadcast(0.044715f), broadcast(1.0f));
    return gated(x, mul(mul(x, broadcast(-1.59576912f)), cubic));
  }
};
struct GeluQuick {
  QUERN_CPU_INLINE Lanes of(Lanes x) { return gated(x, mul(x, broadcast(-1.702f))); }
};
struct Relu {
  QUERN_CPU_INLINE Lanes of(Lanes x) { return add(max(zero(), x), zero()); }  // the sum makes 0 of -0
};
struct Sigmoid {
  QUERN_CPU_INLINE Lanes of(Lanes x) {
    const Lanes e = exponential(sub(zero(), absolute(x))), one = broadcast(1.0f);
    return div(by_sign(x, e, one), add(one, e));
  }
};
struct Tanh {
  QUERN_CPU_INLINE Lanes of(Lanes x) { return hyperbolic_tangent(x); }
};

template <typename F>
void each(const float* x, std::int64_t n, float* y, const F& f) {
  each_lanes(
      n, [&](std::int64_t i, int count) __attribute__((always_inline)) { store_some(y + i, f.of(load_some(x + i, count)), count); });
}

template <typename F>
void each_gated(const GluRow& row, const F& f) {
  each_lanes(
      row.n, [&](std::int64_t i, int count) __attribute__((always_inline)) {
        store_some(row.y + i, mul(f.of(load_some(row.gate + i, count)), load_some(row.up + i, count)), count);
      });
}
template <typename F>
void each_limited(const GluRow& row, const F& f) {
  const Lanes high = broadcast(row.limit), low = broadcast(-row.limit), one = broadcast(1.0f);
  each_lanes(
      row.n, [&](std::int64_t i, int count) __attribute__((always_inline)) {
        const Lanes gate = min(high, load_some(row.gate + i, count)), up = add(min(high, max(low, load_some(row.up + i, count))), one);
        store_some(row.y + i, mul(f.of(gate), up), count);
      });
}

template <typename F>
void each_row(const GluRow& row, const F& f) {
  if (row.limit < __builtin_inff()) each_limited(row, f);
  else each_gated(row, f);
}

}  // namespace

void silu(const float* x, std::int64_t n, float* y) noexcept { each(x, n, y, Silu{}); }

void activate(Activation activation, const float* x, std::int64_t n, float* y) noexcept {
  switch (activation) {
    case Activation::gelu_erf: return each(x, n, y, GeluErf{});
    case Activation::gelu_tanh: return each(x, n, y, GeluTanh{});
    case Activation::gelu_quick: return each(x, n, y, GeluQuick{});
    case Activation::sigmoid: return each(x, n, y, Sigmoid{});
    case Activation::tanh: return each(x, n, y, Tanh{});
  }
}

void glu(const GluRow& row) noexcept {
  switch (row.kind) {
    case glu_gelu_erf: return each_row(row, GeluErf{});
    case glu_gelu_tanh: return each_row(row, GeluTanh{});
    case glu_relu: return each_row(row, Relu{});
    case glu_sigmoid: return each_row(row, Sigmoid{});
    default:
      if (row.limit < __builtin_inff()) each_limited(row, SteeperSilu{row.alpha});
      else each_gated(row, Silu{});
  }
}

void softcap(const float* x, float cap, std::int64_t n, float* y) noexcept {
  const Lanes by = broadcast(cap);
  each_lanes(
      n, [&](std::int64_t i, int count)
             __attribute__((always_inline)) { store_some(y + i, mul(hyperbolic_tangent(div(load_some(x + i, count), by)), by), count); });
}

}  // namespace quern::cpu::QUERN_CPU_ISA
