// What cross_entropy and its gradient share: labels, logits that strain a softmax, the log of a sum of exponentials, and the matrix.
#pragma once

#include "ops/given.hpp"

#include <functional>
#include <vector>

namespace quern::conformance {

struct LogSumExp {
  double value, bound;
};
/// Bound: (4 sqrt(n) + 32) u, the relative error of the sum as an absolute one of its log; 2 u |x - max|, weighted, for the differences in
/// it; 4 u |log| for a log of 4 ulp, and u |lse| for adding the largest.
/// A single running f32 sum misses it at a vocabulary of 152k (measured: 4780 u; 4 sqrt(n) + 32 = 1591). NaN where an element is, infinite
/// where the largest is.
LogSumExp log_sum_exp(const std::vector<double>& x);

enum class Labels { usual, some_ignored, all_ignored, out_of_range };

struct LossShape {
  ValueSpec logits;
  Labels labels = Labels::some_ignored;
  double ignore = -100, smoothing = 0, z_loss = 0;
};

/// Group, op's inputs 0 and 1 (logits and labels; the first row's label is the last class, the last row's is class 0), attributes and
/// faults.
Case loss_case(std::uint32_t op, Profile profile, const LossShape& shape);

void each_loss_shape(const std::function<void(Profile, const LossShape&)>& add);

}  // namespace quern::conformance
