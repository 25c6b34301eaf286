// The mandatory list of a profile, as counts and hashes: of the whole profile and of each family. The names themselves are made on
// demand (`list`).
#pragma once

#include "case_table/case_table.hpp"

#include <string>

namespace quern::conformance {

/// As a file: "# quick: N cases, hash H", then "FAMILY N H" for each family that has cases there, sorted by name.
std::string manifest_text(const CaseTable& table, Profile profile);
/// What the first line says behind the profile: "4364 cases, hash 0123456789abcdef". The hash is FNV-1a over the sorted names.
std::string manifest_line(const CaseTable& table, Profile profile);
/// Empty if `table` has the counts and hashes of `manifest`, a file's text; else which families differ, what each has, and the command
/// that writes the file.
std::string manifest_difference(const CaseTable& table, Profile profile, const std::string& manifest);
/// Same with the manifest that this program was built with.
std::string manifest_problem(const CaseTable& table, Profile profile);

}  // namespace quern::conformance
