// See verify.hpp.
#include "report/verify.hpp"

#include "report/matrix.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <map>

namespace quern::conformance {
namespace {

/// "N cases, such as a, b, c"
std::string sample(const std::vector<std::string>& names) {
  std::string text = std::to_string(names.size()) + (names.size() == 1 ? " case: " : " cases, such as ");
  for (std::size_t i = 0; i < std::min<std::size_t>(3, names.size()); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return text;
}

void add(std::vector<Finding>& findings, const std::vector<std::string>& broken, const std::string& holds, const std::string& fails) {
  findings.push_back(broken.empty() ? Finding{true, holds} : Finding{false, fails + ": " + sample(broken)});
}

bool excluded(const std::vector<Exclusion>& exclusions, const std::string& name) {
  return std::ranges::any_of(exclusions, [&](const Exclusion& e) { return ::fnmatch(e.glob.c_str(), name.c_str(), 0) == 0; });
}

void check_cases(const Record& record, const Claim& claim, std::vector<Finding>& findings) {
  std::vector<std::map<std::string, std::uint64_t>> times(record.header.targets.size());
  for (const RecordedResult& r : record.results) ++times[r.target][r.case_name];
  const std::set<std::string> wanted(claim.names.begin(), claim.names.end());
  std::vector<std::string> missing, twice, unknown;
  for (std::size_t t = 0; t < times.size(); ++t) {
    const std::string on = " on " + record.header.targets[t].label;
    for (const std::string& name : wanted)
      if (!times[t].contains(name)) missing.push_back(name + on);
    for (const auto& [name, count] : times[t]) {
      if (count > 1) twice.push_back(name + on);
      if (!wanted.contains(name)) unknown.push_back(name + on);
    }
  }
  add(findings, missing, "every case of the list ended on every device: " + std::to_string(wanted.size()), "without a result");
  add(findings, twice, "no case has two results", "with two results");
  add(findings, unknown, "no case is foreign to the list", "not of the list");
  add(findings, record.unfinished, "no case was left open", "begun and not ended");
}

void check_results(const Record& record, const Claim& claim, std::vector<Finding>& findings) {
  std::vector<std::string> red, waived, empty, contradictory;
  for (const RecordedResult& r : record.results) {
    const Status status = r.result.verdict.status;
    const std::string name = r.case_name + " on " + record.header.targets[r.target].label;
    if (!is_green(status)) red.push_back(name + " (" + status_name(status) + ")");
    const bool excused = status == Status::waived || status == Status::unsupported;
    const bool optional = status == Status::waived && claim.optional.contains(r.case_name);
    if (excused && !optional && !excluded(claim.exclusions.at(r.target), r.case_name)) waived.push_back(name);
    if (status == Status::pass && r.result.verdict.compared == 0 && !claim.without_elements.contains(r.case_name)) empty.push_back(name);
    if (status == Status::pass && (!r.result.verdict.text.empty() || !(r.result.verdict.worst <= 1.0))) contradictory.push_back(name);
  }
  add(findings, red, "every result is green", "not green");
  add(findings, waived, "nothing is waived beside the exclusion lists and what the ABI makes optional",
      "waived without an entry of the exclusion lists");
  add(findings, contradictory, "no pass has a complaint or an error beyond its bound",
      "passed with a complaint or an error beyond the bound");
  add(findings, empty, "every pass compared something", "passed without a comparison");
  const Matrix matrix(record);
  for (std::size_t t = 0; t < record.header.targets.size(); ++t)
    if (matrix.executed(t) == 0) findings.push_back({false, record.header.targets[t].label + ": nothing was executed"});
  const bool same = matrix.json() == record.totals;
  findings.push_back({same, same                    ? "the totals are those of the results"
                            : record.totals.empty() ? "the run was ended before its totals were written"
                                                    : "the totals are not those of the results"});
}

}  // namespace

std::vector<Finding> verify_record(const Record& record, const Claim& claim) {
  std::vector<Finding> findings;
  for (const std::string& text : header_differences(claim.now, record.header)) findings.push_back({false, text});
  if (findings.empty()) findings.push_back({true, "suite build, manifest, plugins, devices and drivers are those of the journal"});
  if (record.header.targets.empty()) findings.push_back({false, "the journal has no device"});
  check_cases(record, claim, findings);
  check_results(record, claim, findings);
  return findings;
}

}  // namespace quern::conformance
