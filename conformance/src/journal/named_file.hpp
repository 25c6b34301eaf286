// Files that the user names with a flag.
#pragma once

#include "quern/base/files.hpp"

#include <string>

namespace quern::conformance {

/// All of a file of at most 1 GiB. Throws UsageError: the flag, the file and why it cannot be read.
std::string read_named(const std::string& flag, const std::string& path);

/// Writes it whole, or leaves what was there. Throws UsageError.
void write_named(const std::string& flag, const std::string& path, const std::string& text);

/// Throws UsageError if there is a problem.
void check_named(const std::string& flag, const base::FileProblem& problem);

}  // namespace quern::conformance
