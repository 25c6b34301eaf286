// What the bound of one element cannot see: a gain, or errors that are too large together.
#pragma once

#include "judge/verdict.hpp"
#include "reference/expected.hpp"

#include <vector>

namespace quern::conformance {

/// For outputs whose errors are independent with the deviations of `expected` (fast numerics): the slope of y on r is within six of
/// its deviations of 1, and sum((y - r)^2 / sigma^2) <= N + 6 sqrt(2 N), both widened by sqrt(sharing); gain_variance is the slope's besides. Needs 512
/// elements, else it passes with 0 compared.
/// The rounding of the store and E_acc are added to each variance.
Verdict judge_aggregate(const ExpectedOutput& expected, const std::vector<double>& got, quern_dtype dtype);

}  // namespace quern::conformance
