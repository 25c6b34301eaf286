// See junit.hpp.
#include "report/junit.hpp"

#include "quern/base/markup.hpp"
#include "report/matrix.hpp"

#include <cstdio>

namespace quern::conformance {
namespace {

std::string seconds(double milliseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", milliseconds / 1000);
  return text;
}

/// "matmul.matmul" of "matmul.matmul.f32...".
std::string class_name(const std::string& name) {
  const std::size_t first = name.find('.');
  return first == std::string::npos ? name : name.substr(0, name.find('.', first + 1));
}

std::string property(const std::string& name, const std::string& value) {
  return "      <property name=\"" + base::markup(name) + "\" value=\"" + base::markup(value) + "\"/>\n";
}

std::string properties(const Record& record, const Target& t) {
  const Header& h = record.header;
  std::string text = "    <properties>\n";
  text += property("suite", h.suite) + property("suite build", h.build) + property("profile", h.profile) + property("manifest", h.manifest);
  text += property("seed", std::to_string(h.seed)) + property("repeat", std::to_string(h.repeat));
  text += property("plugin", t.plugin_id + " " + t.version) + property("plugin sha256", t.sha256);
  text += property("device", t.device_name) + property("driver", t.driver) + property("journal sha256", record.sha256);
  return text + "    </properties>\n";
}

std::string outcome(const CaseResult& r) {
  const Status status = r.verdict.status;
  if (status == Status::pass) return {};
  const std::string text = base::markup(r.verdict.text);
  if (is_green(status)) return "      <skipped message=\"" + text + "\"/>\n";
  const std::string element = status >= Status::device_lost ? "error" : "failure";
  return "      <" + element + " type=\"" + status_name(status) + "\" message=\"" + text + "\">" + text + "</" + element + ">\n";
}

}  // namespace

std::string junit_xml(const Record& record) {
  std::string body;
  for (std::size_t t = 0; t < record.header.targets.size(); ++t) {
    const Target& target = record.header.targets[t];
    std::string cases;
    std::uint64_t count = 0, failures = 0, errors = 0, skipped = 0;
    double milliseconds = 0;
    for (const RecordedResult& r : record.results) {
      if (r.target != t) continue;
      const Status status = r.result.verdict.status;
      ++count;
      milliseconds += r.result.milliseconds;
      skipped += status != Status::pass && is_green(status);
      errors += status >= Status::device_lost;
      failures += !is_green(status) && status < Status::device_lost;
      const std::string inside = outcome(r.result);
      cases += "    <testcase classname=\"" + base::markup(class_name(r.case_name)) + "\" name=\"" + base::markup(r.case_name) +
               "\" time=\"" + seconds(r.result.milliseconds) + "\"" + (inside.empty() ? "/>\n" : ">\n" + inside + "    </testcase>\n");
    }
    body += "  <testsuite name=\"" + base::markup(target.label + " (" + target.device_name + ")") + "\" tests=\"" + std::to_string(count) +
            "\" failures=\"" + std::to_string(failures) + "\" errors=\"" + std::to_string(errors) + "\" skipped=\"" +
            std::to_string(skipped) + "\" time=\"" + seconds(milliseconds) + "\"" +
            (record.started.empty() ? "" : " timestamp=\"" + base::markup(record.started.front().substr(0, 19)) + "\"") + ">\n" +
            properties(record, target) + cases + "  </testsuite>\n";
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"quern-conformance\">\n" + body + "</testsuites>\n";
}

}  // namespace quern::conformance
