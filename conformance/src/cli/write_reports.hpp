// What the verbs run, report and verify derive from a journal.
#pragma once

#include "cli/options.hpp"
#include "report/record.hpp"

namespace quern::conformance {

/// --junit and --html, where they are given. Throws UsageError if a file cannot be written.
void write_reports(const Record& record, const Options& options);
/// The failures and the matrix to stdout. Returns the exit code: 0 if all is green, else 7.
int print_summary(const Record& record, bool every_failure);

}  // namespace quern::conformance
