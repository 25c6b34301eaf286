// What the activations share. -inf becomes 0 where the limit is 0; NaN stays NaN. simd/activations.cpp has the functions and their errors.
#pragma once

#include "map_rows.hpp"

namespace quern::cpu {

/// Of the attribute `kind`.
enum { gelu_erf = 0, gelu_tanh = 1, gelu_quick = 2 };

/// y = activation(x), in f32 with one rounding at the store.
template <Isa isa>
void run_activation(const Call& call, Context& context, Activation activation) noexcept {
  map_rows(call.input(0), call.output(0), context,
           [activation](const float* x, std::int64_t n, float* y) { vectors_of(isa).activate(activation, x, n, y); });
}

/// dx = dy slope(x), in f32 with one rounding at the store.
template <typename F>
void run_slope(const Call& call, Context& context, const F& slope) noexcept {
  map_pairs(call.input(0), call.input(1), call.output(0), context, [&slope](float x, float dy) { return dy * slope(x); });
}

}  // namespace quern::cpu
