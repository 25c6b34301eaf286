// Every kernel that a plan names, reached by forcing it.
//
// Of each op, and of each combination of dtypes that its cases have, the first case of the quick profile runs again under each kernel
// family of the plugin (as the user's option, so that weights are packed for it) and under each kernel name that any of those plans
// told (as the compiler's option). See device_run/forced_kernels.hpp.
#include "ops/family.hpp"

#include <set>

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

void generate(CaseSink& sink) {
  std::set<std::string> seen;
  std::vector<Case> chosen;
  for (const Case& c : sink.cases()) {
    if (c.profile != Profile::quick || c.script || c.graph || !is_usual(c)) continue;
    // Two of each kind: one row and several have kernels of their own.
    const std::string kind = kind_of(c);
    const bool one_row = c.inputs.empty() || c.inputs[0].absent() || c.inputs[0].dims.size() < 2 || c.inputs[0].dims[c.inputs[0].dims.size() - 2] <= 1;
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
}

}  // namespace

extern const Family forced_family;
const Family forced_family = {"forced", generate};

}  // namespace quern::conformance
