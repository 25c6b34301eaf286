// Which cases of a profile a call runs.
#pragma once

#include "case_table/case_table.hpp"
#include "cli/options.hpp"

namespace quern::conformance {

/// In the table's order. Throws UsageError for a filter, op, dtype or group that matches no case of the profile.
std::vector<const Case*> select_cases(const CaseTable& table, const Options& options);

}  // namespace quern::conformance
