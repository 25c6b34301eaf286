// verify: a journal against this suite and what is installed here.
#include "case_table/manifest.hpp"
#include "case_table/selection.hpp"
#include "cli/output.hpp"
#include "cli/target_exclusions.hpp"
#include "cli/verbs.hpp"
#include "journal/named_file.hpp"
#include "report/html.hpp"
#include "report/junit.hpp"
#include "report/verify.hpp"

#include <unistd.h>

#include <algorithm>

namespace quern::conformance {
namespace {

/// The journal's devices as they are here, each asked for by its label through the plugin's file. `error` is set where one is not.
std::vector<Target> targets_here(const Header& header, const Selection& given, std::string& error) {
  std::vector<Target> found;
  for (const Target& t : header.targets) {
    Selection selection = given;
    selection.device = t.label;
    if (selection.plugins.empty() && selection.backend.empty()) {
      if (::access(t.path.c_str(), R_OK) == 0) selection.plugins = {t.path};
      else selection.backend = t.plugin_id;
    }
    const Survey survey = find_targets(selection);
    if (survey.exit_code != 0) error = t.label + " cannot be compared: " + survey.error;
    for (const Target& here : survey.targets)
      if (here.label == t.label) found.push_back(here);
  }
  return found;
}

Profile profile_of(const std::string& name, const std::string& file) {
  for (const Profile p : {Profile::quick, Profile::full, Profile::huge})
    if (name == profile_name(p)) return p;
  throw UsageError(file + ": '" + name + "' is no profile");
}

/// Whether a report is what the journal gives.
Finding compare_file(const std::string& path, const char* flag, const std::string& derived) {
  const bool same = read_named(flag, path) == derived;
  return {same, path + (same ? " is derived from this journal" : " is not what this journal gives")};
}

}  // namespace

int verify_verb(const Options& given) {
  if (given.argument.empty()) throw UsageError("verify: which journal? quern-conformance verify FILE");
  const Record record = read_record(given.argument);
  const CaseTable table;
  Options options = given;  // the run's own conditions; which cases it must have, this call says
  options.profile = profile_of(record.header.profile, given.argument);
  options.seed = record.header.seed;
  options.repeat = record.header.repeat;
  options.selection.threads = record.header.threads;
  options.selection.plugin_options = record.header.options;

  Claim claim;
  for (const Case* c : select_cases(table, options)) {
    claim.names.push_back(c->name);
    const bool elements = std::ranges::any_of(c->outputs, [](const ValueSpec& v) { return !v.absent() && element_count(v.dims) > 0; });
    if (!c->script && !elements) claim.without_elements.insert(c->name);
    if (c->group == "abi") claim.optional.insert(c->name);
  }
  std::string unavailable;
  std::vector<Target> here = targets_here(record.header, given.selection, unavailable);
  claim.now = make_header(options, claim.names, manifest_line(table, options.profile), std::move(here));
  claim.now.environment = record.header.environment;
  claim.exclusions = target_exclusions(record.header.targets, given.exclusions, table);
  std::vector<Finding> findings = verify_record(record, claim);
  if (!given.html.empty()) findings.push_back(compare_file(given.html, "--html", html_page(record)));
  if (!given.junit.empty()) findings.push_back(compare_file(given.junit, "--junit", junit_xml(record)));

  bool all = true;
  for (const Finding& f : findings) {
    to_output() << (f.holds ? "ok   " : "NO   ") << f.text << "\n";
    all = all && f.holds;
  }
  to_output() << (all ? "verified: " : "not verified: ") << given.argument << ", SHA-256 " << record.sha256 << "\n";
  if (all) return 0;
  if (unavailable.empty()) return 7;
  write_error(unavailable);
  return 3;
}

}  // namespace quern::conformance
