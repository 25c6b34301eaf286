// Loops over elements, and activations, for the ops of the reference interpreter.
#pragma once

#include "reference_interpreter.hpp"

#include <cmath>

namespace quern::test {

/// The element of b that broadcasting puts beside element i of a.
inline double broadcast(const Cells& a, const Cells& b, std::int64_t i) {
  std::int64_t flat = 0;
  std::int64_t step = 1;
  for (std::size_t d = 0; d < b.dims.size(); ++d) {
    const std::int64_t size = a.dims[a.dims.size() - 1 - d];
    const std::int64_t mine = b.dims[b.dims.size() - 1 - d];
    if (mine != 1) flat += i % size * step;
    step *= mine;
    i /= size;
  }
  return b.flat(flat);
}

template <typename F>
void binary(ReferenceCall& call, F f) {
  const Cells &a = call.in[0], &b = call.in[1], &y = call.out[0];
  for (std::int64_t i = 0; i < a.count(); ++i) y.flat(i) = f(a.flat(i), broadcast(a, b, i));
}

template <typename F>
void unary(ReferenceCall& call, F f) {
  const Cells &x = call.in[0], &y = call.out[0];
  for (std::int64_t i = 0; i < x.count(); ++i) y.flat(i) = f(x.flat(i));
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

inline double gated(std::int64_t kind, double x, double alpha) {
  switch (kind) {
    case 0: return x * sigmoid(alpha * x);
    case 1: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case 2: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case 3: return x > 0 ? x : 0;
    default: return sigmoid(x);
  }
}

/// The slope of gated().
inline double gated_slope(std::int64_t kind, double x, double alpha) {
  const double s = sigmoid(alpha * x);
  switch (kind) {
    case 0: return s + alpha * x * s * (1 - s);
    case 1: return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    case 2: {
      const double c = std::sqrt(2 / M_PI), t = std::tanh(c * (x + 0.044715 * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
    }
    case 3: return x > 0 ? 1 : 0;
    default: return sigmoid(x) * (1 - sigmoid(x));
  }
}

/// Whether attention_dense lets a query see a key, or attention_ragged made dense; in reference_training.cpp.
bool dense_key_is_seen(const ReferenceCall& call, std::int64_t query, std::int64_t key);
/// A call of attention_ragged, or of its gradient, with the operands of attention_dense: one batch of all rows, and `start` behind them.
ReferenceCall ragged_as_dense(const ReferenceCall& call);

}  // namespace quern::test
