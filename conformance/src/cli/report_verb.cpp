// report: the summary, JUnit and HTML of a journal that an earlier run wrote.
#include "cli/verbs.hpp"
#include "cli/output.hpp"
#include "cli/write_reports.hpp"
#include "report/provenance.hpp"

namespace quern::conformance {

int report_verb(const Options& options) {
  if (options.argument.empty()) throw UsageError("report: which journal? quern-conformance report FILE");
  const Record record = read_record(options.argument);
  write_reports(record, options);
  to_output() << provenance_text(record);
  const int code = print_summary(record, options.verbose);
  to_output() << waivers_text(record);
  return code;
}

}  // namespace quern::conformance
