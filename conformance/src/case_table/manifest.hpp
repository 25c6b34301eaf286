// The mandatory list of a profile, as counts and hashes: of all its cases and of each family. The names themselves are made on
// demand (`list`). The profile full has the cases of quick too; its file has those that it adds.
#pragma once

#include "case_table/case_table.hpp"

#include <string>

namespace quern::conformance {

/// As a file: "# quick: N cases, hash H", then "FAMILY N H" for each family that has cases there, sorted by name; of cases that no smaller
/// profile has.
std::string manifest_text(const CaseTable& table, Profile profile);
/// Of the whole profile, as a journal has it: "4364 cases, hash 0123456789abcdef". The hash is FNV-1a over the sorted names.
std::string manifest_line(const CaseTable& table, Profile profile);
/// Empty if `table` has the counts and hashes of `manifest`, a file's text; else which families differ, what each has, and the command
/// that writes the file.
std::string manifest_difference(const CaseTable& table, Profile profile, const std::string& manifest);
/// Same with the manifests that this program was built with: of full, quick's too.
std::string manifest_problem(const CaseTable& table, Profile profile);

}  // namespace quern::conformance
