// list: names of cases, and the mandatory list of a profile.
#include "case_table/manifest.hpp"
#include "case_table/selection.hpp"
#include "case_table/whole_graph.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "journal/named_file.hpp"
#include "report/bound_text.hpp"

#include <nlohmann/json.hpp>

namespace quern::conformance {
namespace {

nlohmann::json values(const std::vector<ValueSpec>& specs) {
  nlohmann::json list = nlohmann::json::array();
  for (const ValueSpec& v : specs)
    list.push_back(v.absent() ? nlohmann::json() : nlohmann::json{{"dtype", dtype_name(v.dtype)}, {"dims", v.dims}});
  return list;
}

/// A case as one line of JSON: what a script needs to find the cases of a shape.
std::string description(const Case& c) {
  nlohmann::json j{{"name", c.name}, {"group", c.group}, {"profile", profile_name(c.profile)}, {"note", c.note}};
  j["kind"] = c.script ? "script" : c.graph ? "graph" : "node";
  if (!c.script && !c.graph) j["op"] = op_name(c.op);
  for (const Extents& run : c.graph ? c.graph->runs : std::vector<Extents>()) j["runs"].push_back({run.rows, run.outputs});
  j["inputs"] = values(c.inputs);
  j["outputs"] = values(c.outputs);
  return j.dump();
}

}  // namespace

int list_verb(const Options& options) {
  const CaseTable table;
  if (!options.write_manifest.empty()) {
    write_named("--write-manifest", options.write_manifest, manifest_text(table, options.profile));
    return 0;
  }
  if (!options.print_bound.empty()) {
    const Case* c = table.find(options.print_bound);
    if (c == nullptr) throw UsageError("--print-bound: there is no case '" + options.print_bound + "'; list prints the names");
    to_output() << bound_text(*c, options.seed);
    return 0;
  }
  const std::vector<const Case*> cases = select_cases(table, options);
  if (!options.json.empty()) {
    std::string lines;
    for (const Case* c : cases) lines += description(*c) + "\n";
    write_named("--json", options.json, lines);
    return cases.empty() ? 7 : 0;
  }
  for (const Case* c : cases) to_output() << c->name << "\n";
  to_messages() << cases.size() << " cases\n";
  return cases.empty() ? 7 : 0;
}

}  // namespace quern::conformance
