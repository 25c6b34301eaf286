// See write_reports.hpp.
#include "cli/write_reports.hpp"

#include "cli/output.hpp"
#include "journal/named_file.hpp"
#include "report/html.hpp"
#include "report/junit.hpp"
#include "report/matrix.hpp"
#include "report/reasons.hpp"

namespace quern::conformance {
void write_reports(const Record& record, const Options& options) {
  if (!options.junit.empty()) write_named("--junit", options.junit, junit_xml(record));
  if (!options.html.empty()) write_named("--html", options.html, html_page(record));
}

int print_summary(const Record& record, bool every_failure) {
  const Matrix matrix(record);
  to_output() << matrix.failures(every_failure ? SIZE_MAX : 20) << reasons_text(record) << matrix.text();
  if (every_failure) to_output() << times_text(record);
  for (const std::string& open : record.unfinished) to_output() << "not ended: " << open << "\n";
  return matrix.green() && record.unfinished.empty() ? 0 : 7;
}

}  // namespace quern::conformance
