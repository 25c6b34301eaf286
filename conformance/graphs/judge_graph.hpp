// Judges every plan of a whole graph against f64, value by value, and against the same graph run node by node.
#pragma once

#include "case_table/whole_graph.hpp"
#include "device_run/case_run.hpp"
#include "judge/verdict.hpp"

namespace quern::conformance {

/// - node by node: each value against the reference of its node on the inputs that the device had: the bounds of the op's own cases;
/// - every other plan: each value that it shows against the reference, propagated through what it does not show
///   (graphs/reference/node_reference.hpp). A mode of which each value has bits that were judged before is not judged again;
/// - with and without fusion: the same bits where both plans tell one numerics_key [C17];
/// - without fusion and node by node: the same bits where both declare invariance and name the same kernels;
/// - other numbers of rows: the same bits in the rows that both have, where the plans declare invariance.
/// A mode that failed, is unsupported or out of memory gives its verdict. Up to `threads` modes are judged at a time; the verdict does not
/// depend on their number.
Verdict judge_graph(const Case& c, const CaseData& data, const std::vector<ModeResult>& modes, std::uint32_t threads);

/// One output as a verdict: the rule and bounds of `result` on the live rows of `found`. `flushes`: of a device that declares `ftz`
/// (plugin-api/CONTRACT.md, C23), 0 may stand for what is below 2^-126.
struct Result;
Verdict judge_result(const Result& result, const Tensor& found, Numerics numerics, bool flushes = false);

}  // namespace quern::conformance
