// The cases of bench: those that measure a device's peaks, and the choice among the table's.
#pragma once

#include "case_table/case_table.hpp"

#include <string>
#include <vector>

namespace quern::conformance {

/// What a peak is of. Products are compared with that of their weights and numerics.
enum class Peak { latency, bandwidth, f32, narrow, quantised };
/// "copy of one element", "f32 products": as the table says it.
const char* peak_name(Peak peak);

/// Cases of growing size. They are no part of any profile; their names begin with "peak.".
struct PeakCase {
  Peak peak;
  Case what;
};
const std::vector<PeakCase>& peak_cases(const CaseTable& table);

/// A case of the table or a peak's; null if there is none.
const Case* find_bench_case(const CaseTable& table, const std::string& name);

/// Which peak a case's FLOP/s are a share of. `fast`: the numerics that it ran in.
Peak peak_of(const Case& c, bool fast);

/// Of `cases`, those that can be timed: no script, no fault, outputs that have elements. `largest_only`: of each op and dtypes the one
/// that moves and computes most.
std::vector<const Case*> timed_cases(const std::vector<const Case*>& cases, bool largest_only);

}  // namespace quern::conformance
