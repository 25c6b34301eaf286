// Compares an output with what the reference expects. Pure: no plugin, no file.
//
// NaN and infinity are settled before any arithmetic. Zero comparisons are `unknown`, never a pass; so is a rule that was not set.
#pragma once

#include "judge/verdict.hpp"
#include "reference/expected.hpp"

namespace quern::conformance {

/// `y` is the packed output of the device. Throws nothing but bad_alloc.
///
/// In fast numerics an infinite result of an op that converts its inputs may be NaN (plugin-api/OPS.md, "Conversions").
///
/// `flushed`: for a device that declares `ftz` (plugin-api/CONTRACT.md, C23), what the same reference expects of inputs whose f32 and bf16
/// subnormals are zeros. An element of f32, f16 or bf16 may then also be what `flushed` demands; one of f32 or bf16 may be 0 where the exact
/// value of either is below 2^-126. Bytes and integers gain nothing by it. Null: nothing is granted.
Verdict judge(const ExpectedOutput& expected, const Tensor& y, Numerics numerics, const ExpectedOutput* flushed = nullptr);

/// E_out: rounding r to the output's dtype.
double store_bound(quern_dtype dtype, double r) noexcept;

}  // namespace quern::conformance
