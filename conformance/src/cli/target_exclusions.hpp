// The exclusions of each device of a call.
#pragma once

#include "case_table/case_table.hpp"
#include "case_table/exclusions.hpp"
#include "worker/target.hpp"

#include <string>
#include <vector>

namespace quern::conformance {

/// One list a target: the built-in one of its backend, and behind it what `file` holds (empty: no file). A file is about one backend.
/// Throws UsageError where the targets are of several, and for a line of the file that is none or matches no case.
std::vector<std::vector<Exclusion>> target_exclusions(const std::vector<Target>& targets, const std::string& file, const CaseTable& table);

}  // namespace quern::conformance
