// Which cases of a profile a call runs, and whether that profile is what its manifest says.
#pragma once

#include "case_table/case_table.hpp"
#include "cli/options.hpp"

namespace quern::conformance {

/// In the table's order. Throws UsageError for a filter, op, dtype or group that matches no case of the profile.
std::vector<const Case*> select_cases(const CaseTable& table, const Options& options);

/// The mandatory list of a profile as a file: "# quick: N cases, hash H", then one name a line, sorted.
std::string manifest_text(const CaseTable& table, Profile profile);
/// What the first line says behind the profile: "4364 cases, hash 0123456789abcdef".
std::string manifest_line(const CaseTable& table, Profile profile);
/// Empty if count and hash are those of the manifest that this program was built with, else what differs.
std::string manifest_problem(const CaseTable& table, Profile profile);

}  // namespace quern::conformance
