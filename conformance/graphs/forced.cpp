// Every kernel that a plan names, reached by forcing it.
//
// Of each op, and of each combination of dtypes that its cases have, the first case of the quick profile runs again under each kernel
// family of the plugin (as the user's option, so that weights are packed for it) and under each kernel name that any of those plans
// told (as the compiler's option). Kernels of several nodes are reached by graphs: in full, each composite with 17 rows and weights of
// one format of each kind runs again under each family. See device_run/forced_kernels.hpp.
#include "ops/family.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

namespace quern::conformance {
namespace {

/// The op, the attributes' keys and the dtypes of the values: what kernels are chosen by.
std::string kind_of(const Case& c) {
  std::string kind = op_name(c.op);
  for (const std::vector<ValueSpec>* values : {&c.inputs, &c.outputs})
    for (const ValueSpec& v : *values) kind += "." + dtype_name(v.dtype);
  return kind;
}

/// A node of plain values with several rows: what specialised kernels take.
bool is_usual(const Case& c) {
  std::int64_t elements = 0;
  for (const std::vector<ValueSpec>* values : {&c.inputs, &c.outputs})
    for (const ValueSpec& v : *values) {
      if (!v.absent() && (!v.layout.packed() || v.layout.shifted || v.in_place_of >= 0)) return false;
      if (!v.absent()) elements = std::max(elements, element_count(v.dims));
    }
  return elements >= 2 && elements <= 1 << 18 && c.faults == 0;
}

/// What follows the group in the name of a composite to be forced; empty for any other case.
std::string composite_name(const Case& c) {
  constexpr std::string_view group = "graphs.", begin = "graphs.composite.";
  const auto ends = [&](std::string_view end) { return c.name.ends_with(end); };
  if (!c.graph || !c.name.starts_with(begin) || !(ends(".f16.rows17") || ends(".q4_0.rows17") || ends(".q4_k.rows17"))) return {};
  return c.name.substr(group.size());
}

void add_graphs(CaseSink& sink) {
  std::vector<Case> chosen;
  std::ranges::copy_if(sink.cases(), std::back_inserter(chosen), [](const Case& c) { return !composite_name(c).empty(); });
  for (Case& c : chosen) {
    c.every_kernel = true;
    c.group = "kernels";
    c.profile = Profile::full;
    const std::string name = "kernels." + composite_name(c) + ".every_kernel";
    sink.add_graph(name, std::move(c));
  }
}

void generate(CaseSink& sink) {
  std::set<std::string> seen;
  std::vector<Case> chosen;
  for (const Case& c : sink.cases()) {
    if (c.profile != Profile::quick || c.script || c.graph || !is_usual(c)) continue;
    // Two of each kind: one row and several have kernels of their own.
    const std::string kind = kind_of(c);
    const bool one_row = c.inputs.empty() || c.inputs[0].absent() || c.inputs[0].dims.size() < 2 ||
                         c.inputs[0].dims[c.inputs[0].dims.size() - 2] <= 1;
    if (!seen.insert(kind + (one_row ? ".one" : ".several")).second) continue;
    chosen.push_back(c);
  }
  for (Case& c : chosen) {
    c.every_kernel = true;
    c.note += (c.note.empty() ? "" : "_") + std::string("every_kernel");
    c.group = "kernels";
    c.level = std::max<int>(c.level, level_inference);  // level 1 is what a plugin begins with
    sink.add(std::move(c));
  }
  add_graphs(sink);
}

}  // namespace

extern const Family forced_family;
const Family forced_family = {"forced", generate};

}  // namespace quern::conformance
