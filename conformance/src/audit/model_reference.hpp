// What a random model must compute, in f64, and how far rounding may take a device from it.
//
// The model is computed step by step from its own definition: nothing of the runtime's graph, and nothing of the cases' references.
//
// How far: the model is computed again a few times. Each value that a device rounds is then displaced by a random amount, of the size that
// rounding may have. The results show how such errors grow on their way to the logits. A product of bounds would overstate that.
//   exact   u = 2^-24. A sum of k products errs by a random walk: each partial sum is rounded, by u / sqrt 3 of it in the mean square. In the
//           worst order, one after the other, that adds up to 0.4 u |x| |w|, with |x| and |w| the lengths of both vectors. The deviation is
//           2 u |x| |w|: matrix units that cut off instead of rounding, and weights that are rounded to f32, have room. Functions (norm,
//           gate, softmax) err by 4 u of their value, a rotation by u (1 + angle) of an angle.
//   fast    besides, what fast numerics may convert: the activations of a product become int8 with one scale for 256 values, which is the
//           coarsest that is allowed: the deviation is max / 127 / sqrt 12. Queries, keys, values and weights of attention become bf16.
// A logit may be 8 deviations of its row away, as in the suite's cases. In fast numerics the root of the errors' mean square is at most twice
// that of all deviations. Three displaced runs of a few dozen positions give the latter to a fifth or so.
#pragma once

#include "audit/random_model.hpp"

#include <optional>
#include <vector>

namespace quern::conformance {

enum class Rounding { none, exact, fast };

/// Logits of each position, one row a token. `random` draws the displacements; Rounding::none displaces nothing.
std::vector<std::vector<double>> model_logits(const RandomModel& model, const std::vector<std::int32_t>& ids, Rounding rounding,
                                              const CounterRandom& random);

/// What a sequence must give.
struct ExpectedLogits {
  std::vector<std::vector<double>> logits;
  std::vector<double> deviation;  // of a row's logits
};
ExpectedLogits expected_logits(const RandomModel& model, const std::vector<std::int32_t>& ids, Rounding rounding,
                               const CounterRandom& random);

constexpr double most_deviations = 8;
constexpr double most_fast_mean = 2;

}  // namespace quern::conformance
