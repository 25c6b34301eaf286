// Compares an output with what the reference expects. Pure: no plugin, no file.
//
// NaN and infinity are settled before any arithmetic. Zero comparisons are `unknown`, never a pass; so is a rule that was not set.
#pragma once

#include "judge/verdict.hpp"
#include "reference/expected.hpp"

namespace quern::conformance {

/// `y` is the packed output of the device. Throws nothing but bad_alloc.
Verdict judge(const ExpectedOutput& expected, const Tensor& y, Numerics numerics);

/// E_out: rounding r to the output's dtype.
double store_bound(quern_dtype dtype, double r) noexcept;

}  // namespace quern::conformance
