// list: names of cases, and the mandatory list of a profile.
#include "case_table/manifest.hpp"
#include "case_table/selection.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "journal/named_file.hpp"


namespace quern::conformance {

int list_verb(const Options& options) {
  const CaseTable table;
  if (!options.write_manifest.empty()) {
    write_named("--write-manifest", options.write_manifest, manifest_text(table, options.profile));
    return 0;
  }
  const std::vector<const Case*> cases = select_cases(table, options);
  for (const Case* c : cases) to_output() << c->name << "\n";
  to_messages() << cases.size() << " cases\n";
  return cases.empty() ? 7 : 0;
}

}  // namespace quern::conformance
