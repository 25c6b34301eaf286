// See write_reports.hpp.
#include "cli/write_reports.hpp"

#include "report/html.hpp"
#include "report/junit.hpp"
#include "report/matrix.hpp"

#include <fstream>
#include <iostream>

namespace quern::conformance {
namespace {

void write(const std::string& path, const char* flag, const std::string& text) {
  if (path.empty()) return;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.flush();
  if (!out) throw UsageError(std::string(flag) + " " + path + ": cannot be written");
}

}  // namespace

void write_reports(const Record& record, const Options& options) {
  if (!options.junit.empty()) write(options.junit, "--junit", junit_xml(record));
  if (!options.html.empty()) write(options.html, "--html", html_page(record));
}

int print_summary(const Record& record, bool every_failure) {
  const Matrix matrix(record);
  std::cout << matrix.failures(every_failure ? SIZE_MAX : 20) << matrix.text();
  for (const std::string& open : record.unfinished) std::cout << "not ended: " << open << "\n";
  return matrix.green() && record.unfinished.empty() ? 0 : 7;
}

}  // namespace quern::conformance
