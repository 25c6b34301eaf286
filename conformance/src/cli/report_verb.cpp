// report: the summary, JUnit and HTML of a journal that an earlier run wrote.
#include "cli/verbs.hpp"
#include "cli/write_reports.hpp"
#include "report/provenance.hpp"

#include <iostream>

namespace quern::conformance {

int report_verb(const Options& options) {
  if (options.argument.empty()) throw UsageError("report: which journal? quern-conformance report FILE");
  const Record record = read_record(options.argument);
  write_reports(record, options);
  std::cout << provenance_text(record);
  const int code = print_summary(record, options.verbose);
  std::cout << waivers_text(record);
  return code;
}

}  // namespace quern::conformance
